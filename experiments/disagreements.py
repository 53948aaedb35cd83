"""What the rows taught, in words, and places where publications disagree: claim, against it, here."""

DISAGREEMENTS: tuple[tuple[str, str, str], ...] = (
    (
        "Parity with k-means at 10kd (Keriven 2017, Figure 5.7)",
        "the reference is one run of Lloyd's algorithm from uniform points, which is nearly always stuck",
        "two references everywhere: the published one and the best known cost",
    ),
    (
        "Sketched methods beat k-means (Chatalic 2020, Figure 6.2)",
        "three runs of plain k-means++ are often stuck; scikit-learn's greedy variant is not",
        "`initialisation` measures the references",
    ),
    (
        "The survey's Figure 6 shows spectral features of augmented MNIST, 1.5 orders faster than k-means",
        "the same experiment in Keriven 2017, Figure 5.7, is on synthetic clusters, and says two orders",
        "`large-n` uses synthetic clusters and accepts a factor of 30 to 100",
    ),
    (
        "MNIST with 784 columns is clustered from 400 features (survey)",
        "the features are of ten spectral columns, so 400 is 4kd",
        "columns are stated",
    ),
    (
        "2kd works with CL-OMPR only (Chatalic 2020, section 9.3)",
        "at 2kd CL-AMP works and CL-OMPR does not (Figure 6.2 of the same thesis)",
        "`phase-kmeans` runs both",
    ),
    (
        "CL-OMP succeeds from 2kd on (Chatalic 2020, Figure 9.1)",
        "CL-OMPR needs 5 to 10kd (Figure 6.2)",
        "`nsr` and `phase-kmeans` show the greedy decoders at 2kd",
    ),
    (
        "The learned scale is as good as the best one (Keriven 2017, section 5.3)",
        "estimates of the width within clusters are highly inaccurate (Chatalic 2020, section 4.1.3)",
        "`kernel-scale` draws the rules beside the curve",
    ),
    (
        "The best scale is the variance between clusters (Chatalic 2020, Figure 4.5)",
        "it is the squared separation (Figures 4.6 to 4.8), 4.3 times as large at k = d = 10",
        "`kernel-scale` measures where the minimum is",
    ),
    (
        "The guarantees ask for a scale of separation²/(16 log ek) (Chatalic 2020) or /64 (Gribonval et al. 2021)",
        "decoders fail at either",
        "`kernel-scale` includes the rule",
    ),
    (
        "The divergence of the Gaussian law at d = 20 is 32.4 (Keriven 2017, Table 5.1)",
        "sign and failure are reproduced, the value is not: it depends on the smallest variance allowed",
        "`frequency-law`",
    ),
    (
        "Standard deviations of centres are c²k^(1/d), ck^(1/d) and (ck^(1/d))² in three sections of Keriven 2017",
        "only one can be meant",
        "ck^(1/d) everywhere",
    ),
    (
        "CL-OMPR has better cost and better labels than k-means (Keriven 2017; bibliographic report)",
        "on digits its cost is higher and its labels are better: the optimum of k-means has worse labels",
        "`spectral` reports both",
    ),
    (
        "Replicates and starts do not matter for CL-OMPR (bibliographic report)",
        "twenty candidates a step change the success of Table 4.1",
        "`greedy-diracs` has both",
    ),
    (
        "One-bit features cost 25 % more features (survey, section 6.2)",
        "visible at 4kd and gone at 10kd (Chatalic 2020, Figure 9.4)",
        "`one-bit` measures the shift",
    ),
    (
        "Masks of features leave ε as it is (survey, section 8)",
        "true for pure ε and masks of fixed size; Gaussian noise grows by the root of m / r",
        "[privacy](privacy.md) has the sensitivities that are used",
    ),
    (
        "Constants for replaced rows and quadratic features in Chatalic 2020",
        "they spend up to twice the ε that is stated",
        "corrected sensitivities in all private experiments",
    ),
    (
        "m of the order of k²d (Gribonval et al. 2021) or k²d² (Keriven 2017) is enough",
        "with the constants of the proofs that is a million to a billion times kd; 2 to 10kd work",
        "[theory and practice](theory/guarantees.md)",
    ),
)

LEARNED = """\
- **The reference decides the result.** One run of Lloyd's algorithm from uniform points is stuck on nearly every
  data set, and three runs of plain k-means++ on many. Parity with them says little; every cost here is over the best
  known one ([starts](#starts-and-what-the-published-references-are-worth)).
- **BIRCH is the rival to beat** for the cost of k-means in one pass: with the same bytes it is as good as a sketch or
  better, on all four kinds of data. Rows and coresets of the same bytes are worse than a sketch, unless that has fewer
  than about 2kd features, where it fails. What a sketch has beyond a low cost is exact merging and deletion, private
  releases, and other models later ([quality per byte](#quality-per-byte)).
- **Greedy decoders depend on the kernel scale and on the start of step 1**, more than was published; the default has no
  scale to choose ([kernel scale](#the-kernel-scale), [point masses](#point-masses-without-noise)).
- **The adapted radius has the wider window and the worse optimum** than the Gaussian law, for k-means in ten dimensions
  ([kernel scale](#the-kernel-scale)).
- **A decoder that is told the noise** can stand far more of it ([noise](#noise-on-the-sketch)).
- **Seconds are not the reason to sketch.** With the pass over the rows counted, the gain over one run of k-means is
  small, and k-means on ten thousand rows is faster than both. Memory, one pass and merging are the reasons
  ([many rows](#many-rows-seconds-and-bytes)).
- **Private principal components under pure ε** are better from a covariance with Wishart noise than from a sketch, in a
  hundred columns ([principal components](#principal-components)).
"""
