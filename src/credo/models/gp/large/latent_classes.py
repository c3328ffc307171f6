"""A Gaussian process for each of several classes and many rows: `latent_classes` on the features of m inducing points.

With a(x) = L⁻¹ k(U, x), z_c = m + Aw_c + noise, w_c ~ N(0, I) and D_c the precisions 1/s²ᵢ_c, of which there are two,
all is closed form:

    B_c = I + AᵀD_cA = I + AᵀA/s²₀ + (1/s²₁ - 1/s²₀) A_ᶜᵀA_ᶜ,   w_c | z_c ~ N(B_c⁻¹AᵀD_c(z_c - m), B_c⁻¹)

with A_ᶜ the rows of class c: O(nm²) work for all classes together, one pass over chunks of the rows.
Hyperparameters are learned from a thousand rows, then the concentration, the lengthscales and the amplitude by leaving
rows out of many.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.arrays import Array
from credo.core.linalg import factorize, log_determinant, solve, solve_lower
from credo.core.predictive import Predictive
from credo.core.pytrees import changed
from credo.core.special import LOG_2PI
from credo.infer.learning import Learned
from credo.infer.priors import Priors
from credo.models.gp.data import Rows
from credo.models.gp.large.base import in_chunks
from credo.models.gp.large.latent import FIRST_ROWS, MANY_ROWS, ThroughPoints, after_all, height_of
from credo.models.gp.latent_classes import LatentClasses
from credo.models.gp.log_odds import averaged_softmax


class ClassesPosterior(eqx.Module):
    """N(mean_c, (root_c root_cᵀ)⁻¹) of the weights of each class."""

    mean: Float[Array, "k m"]
    root: Float[Array, "k m m"]
    log_evidence: Float[Array, ""]
    """Of all rows."""


class InducingLatentClasses(ThroughPoints, LatentClasses):
    """A `LatentClasses` that sees rows through its values at m points. Make it with `using=Inducing(m)`."""

    def __init__(self, latent: LatentClasses, form: Any):
        self._through(latent, form)
        self.method, self.chooses, self.concentration = "dirichlet", latent.chooses, latent.concentration

    def plain(self) -> LatentClasses:
        """The same prior as a `LatentClasses` of all rows."""
        plain = LatentClasses(self.likelihood, self.kernel, self.mean, self.concentration)
        own = {"inputs": self.inputs, "unit": self.unit, "standardizes": self.standardizes, "chooses": self.chooses}
        return changed(plain, **own)

    def like(self, latent: LatentClasses) -> "InducingLatentClasses":
        """The same approximation of another prior."""
        own = {"likelihood": latent.likelihood, "concentration": latent.concentration}
        return changed(self, kernel=latent.kernel, mean=latent.mean, **own)

    # -- Bayes' rule -----------------------------------------------------------------------------------------

    def posterior(self, rows: Rows, known: object = None) -> ClassesPosterior:
        """The weights of each class: closed form, whatever was `known`."""
        k, m = self._own.width + 1, len(self.points)
        all_rows, of_class, target, fit = np.zeros((m, m)), np.zeros((k, m, m)), np.zeros((k, m)), 0.0
        for a, center, y in self._chunks(rows):
            z, noise = self._regressed(y)
            residual = z - center[:, None]
            all_rows += a.T @ a
            for c in range(k):
                of_class[c] += a[y == c].T @ a[y == c]
            target += (residual / noise).T @ a
            fit -= 0.5 * float((residual**2 / noise + np.log(noise) + LOG_2PI).sum())
        other, own = self.regressed(rows.y[:1])[1]
        roots = [factorize(np.eye(m) + all_rows / other + (1 / own - 1 / other) * each).root for each in of_class]
        mean = np.stack([solve(root, t) for root, t in zip(roots, target, strict=True)])
        volume = sum(float(log_determinant(root)) for root in roots)
        evidence = fit + 0.5 * (float((mean * target).sum()) - volume)
        return ClassesPosterior(mean, np.stack(roots), np.asarray(evidence))

    def _regressed(self, y: Float[np.ndarray, " n"]) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
        """z and s² of every row and class."""
        z, (other, own) = self.regressed(y)
        return np.asarray(z), np.where(self._is(y), own, other)

    # -- predictions -----------------------------------------------------------------------------------------

    def _functions(self, queries: Array) -> tuple[Float[Array, "m k"], Float[Array, "m k"]]:
        """Mean and variance of every class's function."""
        if not isinstance(self.solved, ClassesPosterior):
            return super()._functions(queries)
        mean, known, left = self._known(queries)
        return mean, known + left

    def _known(self, queries: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, their variances given what the points determine, and the rest; a few rows at a time."""
        root, solved = self._root(), self.solved
        parts = []
        for part in in_chunks(len(queries), len(self.points)):
            x = queries[part]
            a = self._features(root, x)
            known = np.stack([(solve_lower(each, a.T) ** 2).sum(0) for each in solved.root], axis=1)
            left = np.maximum(self.prior.kernel.variance_at(x) - (a * a).sum(1), 0.0)
            parts.append((self.mean.at(x)[:, None] + a @ solved.mean.T, known, left[:, None]))
        mean, known, left = (np.concatenate(each) for each in zip(*parts, strict=True))
        return mean, known, left

    def _covariances(self, queries: Array) -> list[Array]:
        if not isinstance(self.solved, ClassesPosterior):
            return super()._covariances(queries)
        a = self._features(self._root(), queries)
        left = self.prior.kernel.between(queries, queries) - a @ a.T
        return [left + half.T @ half for half in (solve_lower(root, a.T) for root in self.solved.root)]

    def left_out(self, rows: Rows) -> Predictive:
        """The prediction of each of these rows, which were seen, from all others."""
        x, y = rows.cut()[:2]
        mean, known, left = self._known(x)
        z, noise = self._regressed(y)
        share = 1.0 - known / noise
        return averaged_softmax(z - (z - mean) / share, known / share + left)


def learn_classes(
    belief: InducingLatentClasses, rows: Rows, fixed: Sequence[str], priors: Priors, seed: int
) -> Learned:
    """All from few rows; then the concentration, the lengthscales and the amplitude by leaving rows out of many."""
    from credo.models.gp.latent_classes_evidence import CONCENTRATIONS, ClassesEvidence, concentrated

    few, some = (rows.at_most(n, seed) for n in (FIRST_ROWS, MANY_ROWS))
    learned = ClassesEvidence().learn(belief.plain(), few, fixed, priors, seed)
    best, notes = belief.like(learned.belief), list(learned.notes)
    if belief.chooses and rows.n > FIRST_ROWS:
        tried = [concentrated(best.placed(some), eps, some, fixed) for eps in CONCENTRATIONS]
        best = changed(max(tried, key=lambda each: height_of(each, some, seed)), points=None)
        notes += ["the concentration by leaving rows out"]
    return after_all(learned._replace(notes=notes), best, rows, fixed, seed)
