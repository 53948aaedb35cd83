import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import sketchlearn as sl
from sketchlearn.privacy import InsecureNoiseWarning, combine, insecure_noise, privatize, sharing
from sketchlearn.privacy.federated import Holder, Round, aggregate, shared_secrets, unmasked
from sketchlearn.privacy.rounds import Party, Terms

NAMES = ["north", "east", "south", "west"]


@pytest.fixture
def phi():
    return sl.FourierFeatures.draw(dim=2, size=60, scale=1.0, seed=0)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(8000, 2))


def parts_of(rows, phi, names=NAMES):
    return {name: sl.sketch(rows[i :: len(names)], phi) for i, name in enumerate(names)}


def agreed_on(phi, honest=4, names=NAMES, epsilon=1.0):
    return Round.agreed(phi, epsilon, 1e-6, holders=names, honest=honest, name="monday")


@settings(max_examples=40, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.integers(1, 9), st.data())
def test_enough_pieces_give_a_secret_back(secret, places, data):
    enough = data.draw(st.integers(1, places))
    pieces = sharing.split(secret, places, enough)
    chosen = data.draw(st.permutations(range(1, places + 1)))[:enough]
    assert sharing.joined({i: pieces[i - 1] for i in chosen}) == secret
    if enough > 1:
        assert sharing.joined({i: pieces[i - 1] for i in chosen[:-1]}) != secret


def test_a_sealed_message_is_for_one_reader():
    key, text = b"k" * 32, b"pieces of a secret" * 20
    assert sharing.opened(key, sharing.sealed(key, text)) == text
    damaged = bytearray(sharing.sealed(key, text))
    damaged[3] ^= 1
    for other, message in ((b"l" * 32, sharing.sealed(key, text)), (key, bytes(damaged))):
        with pytest.raises(ValueError, match="was changed, or is for another holder"):
            sharing.opened(other, message)


def test_messages_under_one_key_have_nothing_in_common():
    """What two of them hide stays hidden if one of them is known: no stream is used twice."""
    key, texts = b"k" * 32, (b"\0" * 400, b"\1" * 400)
    one, two = (np.frombuffer(sharing.sealed(key, text), np.uint8) for text in texts)
    assert len({sharing.sealed(key, texts[0]) for _ in range(20)}) == 20
    assert np.mean((one ^ two) == 1) < 0.05  # 400 of 432 with one stream


def test_fewer_pieces_say_nothing():
    """Any secret is as likely: with one piece missing there is a missing piece for every secret."""
    pieces = sharing.split(b"s" * 32, places=5, enough=3)
    for secret in (b"s" * 32, b"t" * 32, bytes(32)):
        # the line through two pieces and (0, secret) gives the parabola a third point
        points = {0: int.from_bytes(secret, "big"), 1: int.from_bytes(pieces[0], "big"),
                  2: int.from_bytes(pieces[1], "big")}  # fmt: skip
        value = 0
        for i, y in points.items():
            above, below = 1, 1
            for j in points:
                if j != i:
                    above, below = above * (4 - j) % sharing.PRIME, below * (i - j) % sharing.PRIME
            value = (value + y * above * pow(below, -1, sharing.PRIME)) % sharing.PRIME
        fitting = {1: pieces[0], 2: pieces[1], 4: value.to_bytes(sharing.PIECE, "big")}
        assert sharing.joined(fitting) == secret


def test_a_holder_joins_once(phi):
    """A second set of pieces under the same keys, for other holders, is no part of the protocol."""
    terms = Terms.new(phi, 1.0, 1e-6, honest=2)
    parties = {name: Party(terms, name) for name in "abc"}
    keys = {name: party.public for name, party in parties.items()}
    parties["a"].join(keys)
    for party in (parties["a"], Party.from_json(parties["a"].to_json())):
        with pytest.raises(ValueError, match="joins a round once"):
            party.join(keys)


def test_secure_aggregation_has_the_noise_of_one_release(phi, rows):
    parts = parts_of(rows, phi)
    whole = sl.merge(parts.values())
    results = [aggregate(agreed_on(phi), parts) for _ in range(20)]
    record = results[-1].privacy
    central = privatize(whole, 1.0, 1e-6, public_map=True).privacy
    assert (record.epsilon, record.delta) == (1.0, 1e-6)
    assert record.sums_variance == pytest.approx(central.sums_variance)
    offs = [(result.sums - whole.sums).astype(float) for result in results]
    assert np.mean(np.square(offs)) == pytest.approx(record.sums_variance, rel=8 * math.sqrt(2 / (20 * 120)))
    assert np.std([r.count - whole.count for r in results]) < 3 * np.sqrt(record.weight_variance)
    assert record.details["parts"] == 4


@pytest.mark.parametrize(("leaving", "silent"), [(1, 0), (3, 0), (0, 3), (2, 1)])
def test_a_third_may_leave_and_nothing_is_lost_or_counted_twice(phi, leaving, silent):
    """Ten holders with rows of their own; the total is exactly that of all who contributed, and its noise."""
    names = [f"node {i}" for i in range(10)]
    sketches = {name: sl.sketch(np.full((1000 * (i + 1), 2), 0.1 * i), phi) for i, name in enumerate(names)}
    gone = names[:leaving]
    agreed = agreed_on(phi, honest=7, names=names, epsilon=5.0)
    result = aggregate(agreed, sketches, leaving=gone, silent=names[leaving : leaving + silent])
    there = sl.merge(sketches[name] for name in names if name not in gone)
    off = (result.sums - there.sums).astype(float)
    assert result.privacy.details["parts"] == 10 - leaving
    assert np.abs(off).max() < 7 * math.sqrt(result.privacy.sums_variance)
    assert abs(result.count - there.count) < 7 * math.sqrt(result.privacy.weight_variance)
    central = privatize(there, 5.0, 1e-6, public_map=True).privacy
    assert result.privacy.sums_variance == pytest.approx((10 - leaving) / 7 * central.sums_variance)


def test_a_contribution_looks_uniform_whatever_is_behind_it(rows):
    phi = sl.FourierFeatures.draw(dim=2, size=5000, scale=1.0, seed=0)
    for part in (rows[:1], rows):
        agreed = Round.agreed(phi, 1.0, 1e-6, holders=["a", "b"], honest=2)
        keys = shared_secrets(["a", "b"])
        a, b = Holder(agreed, "a", keys["a"]), Holder(agreed, "b", keys["b"])
        a.pieces()
        sent = a.contribution(sl.sketch(part, phi), {"b": b.pieces()["a"]}).values
        assert stats.kstest(sent.astype(float) * 2.0**-64, "uniform").pvalue > 1e-9
        low = np.bincount((sent & np.uint64(15)).astype(int), minlength=16)
        assert stats.chisquare(low).pvalue > 1e-9


def steps(agreed, parts, keys=None):
    """Holders after the second step, what they have sent, and who they are."""
    keys = keys or shared_secrets(agreed.holders)
    holders = {name: Holder(agreed, name, keys[name]) for name in agreed.holders}
    posted = {name: holder.pieces() for name, holder in holders.items()}
    inbox = {v: {u: box[v] for u, box in posted.items() if u != v} for v in agreed.holders}
    return holders, inbox, {v: holders[v].contribution(parts[v], inbox[v]) for v in agreed.holders}


def test_rounds_of_one_name_have_other_masks(phi, rows):
    """The same keys, the same name and the same holder twice: the difference of what is sent stays hidden."""
    parts, keys = parts_of(rows, phi), shared_secrets(NAMES)
    first, second = (steps(agreed_on(phi), parts, keys)[2]["north"].values for _ in range(2))
    low = np.abs((first - second).astype(np.int64).astype(float))
    assert np.median(low) > 2.0**60  # with equal masks: the difference of two noises


def test_a_round_is_used_once(phi, rows):
    parts = parts_of(rows, phi)
    agreed = agreed_on(phi)
    holders, inbox, _ = steps(agreed, parts)
    with pytest.raises(ValueError, match="a round is used once"):
        holders["north"].contribution(parts["north"], inbox["north"])
    holders["north"].unmasking(NAMES)
    with pytest.raises(ValueError, match="pieces are given once"):
        holders["north"].unmasking(NAMES)


def test_nobody_gives_the_masks_of_one_holder_away(phi, rows):
    """A curious aggregator that says somebody has left gets masks with others, never the holder's own as well."""
    agreed = agreed_on(phi, honest=3)
    holders, _, sent = steps(agreed, parts_of(rows, phi))
    liar = {v: holders[v].unmasking(["east", "south", "west"]) for v in ("east", "south", "west")}
    assert not any(("north", "north") in answer for answer in liar.values())
    result = unmasked(agreed, NAMES, [sent[v] for v in ("east", "south", "west")], liar)
    assert result.privacy.details["parts"] == 3
    with pytest.raises(ValueError, match="are needed"):
        holders["north"].unmasking(["north"])


@pytest.mark.filterwarnings("ignore::sketchlearn.privacy.WeakGuaranteeWarning")  # the count is garbage too
def test_too_few_and_the_masks_stay_on(phi, rows):
    agreed = agreed_on(phi, honest=3)
    holders, _, sent = steps(agreed, parts_of(rows, phi))
    answers = {v: holders[v].unmasking(NAMES) for v in NAMES}
    with pytest.raises(ValueError, match="masks stay on"):
        unmasked(agreed, NAMES, list(sent.values()), {v: answers[v] for v in NAMES[:2]})
    one = dict.fromkeys(NAMES, answers["north"])  # one holder's pieces at three places
    wrong = unmasked(agreed, NAMES, list(sent.values()), one)
    assert np.abs(wrong.sums.astype(float)).mean() > 2.0**60


def test_seeded_noise_is_marked_in_the_total(phi, rows):
    """The aggregator draws nothing: what the holders say about their noise must reach the record."""
    agreed = agreed_on(phi)
    with pytest.warns(InsecureNoiseWarning), insecure_noise(0):
        holders, _, sent = steps(agreed, parts_of(rows, phi))
    answers = {v: holders[v].unmasking(NAMES) for v in NAMES}
    result = unmasked(agreed, NAMES, list(sent.values()), answers)
    assert "NOT PRIVATE" in result.privacy.details["noise"]
    assert result.privacy.explain().startswith("WARNING")


def test_every_holder_on_its_own_costs_more_noise(phi, rows):
    own = [privatize(sl.sketch(rows[i::4], phi), 1.0, 1e-6, public_map=True) for i in range(4)]
    together = combine(own, users="disjoint")
    assert together.privacy.epsilon == 1.0
    assert together.privacy.sums_variance == pytest.approx(4 * own[0].privacy.sums_variance)


def test_what_the_round_refuses(phi, rows):
    agreed = agreed_on(phi)
    keys = shared_secrets(NAMES)
    s = sl.sketch(rows, phi)
    with pytest.raises(ValueError, match="with each of the other 3"):
        Holder(agreed, "north", {"east": keys["north"]["east"]})
    with pytest.raises(ValueError, match="with each of the other 3"):
        Holder(agreed, "north", {**keys["north"], "east": b"short"})
    for honest in (2, 5):
        with pytest.raises(ValueError, match="more than half"):
            agreed_on(phi, honest=honest)
    with pytest.raises(ValueError, match="the same name"):
        agreed_on(phi, names=["a", "a", "b"], honest=2)
    holder = Holder(agreed, "north", keys["north"])
    with pytest.raises(ValueError, match="the first step comes first"):
        holder.contribution(s, {})
    holder.pieces()
    with pytest.raises(ValueError, match="already private"):
        holder.contribution(privatize(s, 1.0, public_map=True), {})
    other = sl.FourierFeatures.draw(dim=2, size=60, scale=1.0, seed=1)
    with pytest.raises(sl.IncompatibleSketchError):
        holder.contribution(sl.sketch(rows, other), {})
    with pytest.raises(ValueError, match="1 holders are there, 4 are needed"):
        holder.contribution(s, {})
    with pytest.raises(ValueError, match="public number of rows"):
        Round.agreed(phi, 1.0, 1e-6, holders=NAMES, honest=4, relation="replace-one")
