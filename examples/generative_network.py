"""
A small generative network trained on a sketch
==============================================

A network that turns noise into rows can be trained without any row.  Its output should have the same average features
as the sketch.  The squared distance between the two averages is a maximum mean discrepancy, and its gradient passes
through the features and the network like that of any other loss.  This example needs only NumPy.
"""

# %%
# A spiral with two arms and a hundred thousand rows.  After sketching, the rows are used only to check the result.
import itertools

import matplotlib.pyplot as plt
import numpy as np

import sketchlearn as sl

rng = np.random.default_rng(0)
n = 100_000
t, arm = 3.0 * np.sqrt(rng.uniform(0.02, 1.0, n)), rng.integers(2, size=n)
X = np.column_stack([np.cos(2.0 * t + np.pi * arm), np.sin(2.0 * t + np.pi * arm)]) * t[:, None] / 2.0
X += 0.05 * rng.normal(size=X.shape)
s = sl.sketch(X, sl.design(X[:2000], task="gmm", n_components=20, size=300, seed=0))
print(f"{s.count:,} rows, {s.nbytes:,} bytes")


# %%
# The network: four numbers of noise, two hidden layers, two columns.  `forward` keeps what `backward` needs.
def layers(*widths):
    """Random weights and zero offsets."""
    return [(rng.normal(size=(a, b)) * np.sqrt(2.0 / a), np.zeros(b)) for a, b in itertools.pairwise(widths)]


def forward(network, values):
    """Rows, and the inputs of all layers."""
    inputs = [values]
    for weights, offset in network[:-1]:
        inputs.append(np.tanh(inputs[-1] @ weights + offset))
    weights, offset = network[-1]
    return inputs[-1] @ weights + offset, inputs


def backward(network, inputs, slope):
    """Gradients of all weights and offsets, given that of the rows."""
    found = []
    for (weights, _), values in zip(reversed(network), reversed(inputs), strict=True):
        found.append((values.T @ slope, slope.sum(0)))
        slope = slope @ weights.T * (1.0 - values**2)  # of tanh; not used for the noise
    return found[::-1]


# %%
# The loss is ``sum |mean features - z|^2``.  Frequencies are weighted by how much they show of the data, up to a cap:
# high frequencies see only the noise of the batch.  By the chain rule, the gradient of a row x is the sum over
# frequencies of ``2 Re(conj(residual) i w exp(i w x)) / batch``.
W, z = s.features.frequencies, s.mean
importance = np.minimum(np.abs(z) ** 2 + 0.01, 0.05)


def loss_and_slope(rows):
    """The loss of a batch, and its gradient in the rows."""
    features = np.exp(1j * (rows @ W.T))
    residual = features.mean(0) - z
    turned = 2.0 / len(rows) * np.imag(np.conj(features) * (importance * residual))
    return float(importance @ np.abs(residual) ** 2), turned @ W


# %%
# First check the gradient of a weight against finite differences.
network = layers(4, 48, 48, 2)
noise = rng.normal(size=(200, 4))
rows, inputs = forward(network, noise)
slope = backward(network, inputs, loss_and_slope(rows)[1])[0][0][1, 2]
values = []
for step in (1e-5, -1e-5):
    network[0][0][1, 2] += step
    values.append(loss_and_slope(forward(network, noise)[0])[0])
    network[0][0][1, 2] -= step
print(f"gradient {slope:.8f}, by differences {(values[0] - values[1]) / 2e-5:.8f}")

# %%
# Train with Adam, with fresh noise in every step.
moments = [[(np.zeros_like(w), np.zeros_like(w)) for w in layer] for layer in network]
steps = 1200
for step in range(1, steps + 1):
    rows, inputs = forward(network, rng.normal(size=(300, 4)))
    loss, slope = loss_and_slope(rows)
    rate = 0.004 * (1.0 - (step - 1) / steps)
    for layer, slopes, memory in zip(network, backward(network, inputs, slope), moments, strict=True):
        for i, (w, g) in enumerate(zip(layer, slopes, strict=True)):
            first, second = (0.9 * memory[i][0] + 0.1 * g, 0.99 * memory[i][1] + 0.01 * g**2)
            memory[i] = (first, second)
            w -= rate * (first / (1.0 - 0.9**step)) / (np.sqrt(second / (1.0 - 0.99**step)) + 1e-8)
    if step % 300 == 0:
        print(f"step {step}: loss {loss:.4f}")

# %%
# Judge the network at new frequencies, against the same number of rows and against one Gaussian.
other = sl.FourierFeatures.draw(dim=2, size=1000, scale=0.4, radial="gaussian", seed=9)
truth = sl.sketch(X, other).mean
made = forward(network, rng.normal(size=(5000, 4)))[0]
normal = rng.multivariate_normal(X.mean(0), np.cov(X.T), 5000)
for name, rows in (("network", made), ("one Gaussian", normal), ("5000 rows", X[rng.choice(n, 5000)])):
    print(f"{name}: squared distance {np.mean(np.abs(other(rows).mean(0) - truth) ** 2):.1e}")

# %%
fig, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True)
for ax, rows, title in ((axes[0], X[:5000], "rows"), (axes[1], made, "drawn from the network")):
    ax.plot(*rows.T, ".", markersize=1.5, alpha=0.5)
    ax.set(title=title, aspect="equal")
plt.show()
