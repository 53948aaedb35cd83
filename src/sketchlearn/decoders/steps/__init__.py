"""Steps: functions from a problem and a state to another state.

:mod:`~sketchlearn.decoders.steps.greedy` finds components where the residual is large,
:mod:`~sketchlearn.decoders.steps.splits` finds those that stand for several clusters,
:mod:`~sketchlearn.decoders.steps.weights` fits weights and prunes,
:mod:`~sketchlearn.decoders.steps.refine` descends on all parameters,
:mod:`~sketchlearn.decoders.steps.messages` proposes centres by message passing, and
:mod:`~sketchlearn.decoders.steps.amp` makes fits of these proposals.
"""
