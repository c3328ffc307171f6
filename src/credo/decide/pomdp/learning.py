"""POMDPs that are learned: from an input-driven hidden Markov model, and while acting, by posterior sampling.

Ross, Chaib-draa & Pineau (2007), "Bayes-adaptive POMDPs": counts of transitions and observations are the parameters of
Dirichlet laws. Doshi-Velez, Pineau & Roy (2012) and Strens (2000): act for an episode by the plan of a model drawn from
the posterior.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credo.core.checks import ArrayLike, check_count, check_real, check_table
from credo.core.errors import DataError
from credo.decide.mdp.solving import solve
from credo.decide.pomdp.model import POMDP
from credo.decide.pomdp.sampling import Simulator
from credo.models.densities import CategoricalDensity
from credo.models.hmm import InputHMM


def from_hmm(
    hmm: Any,
    inputs: ArrayLike,
    rewards: ArrayLike,
    discount: float = 0.95,
    *,
    actions: Sequence[Hashable] | None = None,
    observations: Sequence[Hashable] | None = None,
) -> POMDP:
    """The POMDP of an HMM whose transitions are driven by actions and whose emissions are categories.

    A row of `inputs` is the input of each action; `rewards` are (k,) or (k, a). The start is the latest state that the
    belief knows, or where its sequences begin, averaged over the actions.
    """
    if not isinstance(hmm, InputHMM):
        found = f"whose inputs are the actions, found {type(hmm).__name__}"
        raise DataError(f"from_hmm takes an InputHMM (of credo.models.hmm), {found}")
    emission = hmm.emission
    if not isinstance(emission, CategoricalDensity) or emission.probs is None or hmm.transition is None:
        raise DataError("from_hmm needs an HMM that was fitted, with emissions of categories (CategoricalDensity)")
    columns = None if hmm.center is None else len(hmm.center)
    table = check_table(inputs if np.ndim(inputs) == 2 else np.reshape(inputs, (-1, 1)), "inputs", columns)
    starts, chains = hmm.chain_at(table)
    start = np.asarray(starts).mean(axis=0) if hmm.state is None else np.asarray(hmm.state)
    shows, moves = np.asarray(emission.probs), [np.asarray(chain) for chain in chains]
    law = start / start.sum()
    return POMDP(moves, shows, rewards, discount, law, states=hmm.states, actions=actions, observations=observations)


class Episode(NamedTuple):
    """What was done and seen in an episode, and what it earned, discounted."""

    actions: np.ndarray
    observations: np.ndarray
    earned: float


class POMDPBelief(eqx.Module):
    """Dirichlet counts of what is not known of a POMDP: P(s' | s, a) and P(o | a, s'); rewards and start are known.

    Bayes' rule is exact for the counts of a path of states; the path is drawn from its law given what was done and
    seen (forward filtering, backward sampling) under a model drawn from the belief, a step of Gibbs sampling.
    """

    base: POMDP
    """Names, rewards, discount, start and terminal states; its other probabilities are not looked at."""
    moves: Float[np.ndarray, "a s s"]
    shows: Float[np.ndarray, "a s o"]

    @classmethod
    def around(cls, guess: POMDP, strength: float = 1.0, floor: float = 0.1) -> "POMDPBelief":
        """Centred on a guess: `strength` observations' worth of its probabilities, and `floor` for everything."""
        if not check_real(strength, "strength", 0) + check_real(floor, "floor", 0) > 0:
            raise DataError("strength and floor must not both be zero: there would be no counts to begin with")
        moves = strength * np.stack([m.toarray() for m in guess.transitions]) + floor
        shows = strength * np.stack([m.toarray() for m in guess.observations]) + floor
        return cls(guess, moves, shows)

    def sample(self, seed: int = 0) -> POMDP:
        """A model drawn from the belief."""
        check_count(seed, "seed", 0)
        random = np.random.default_rng(seed)
        return self._model(*(_dirichlet(random, each) for each in (self.moves, self.shows)))

    @property
    def mean(self) -> POMDP:
        """The model of the expected probabilities."""
        return self._model(*(each / each.sum(axis=-1, keepdims=True) for each in (self.moves, self.shows)))

    def condition(
        self, actions: Iterable[Hashable], observations: Iterable[Hashable], *, seed: int = 0
    ) -> "POMDPBelief":
        """After an episode: the counts of a path of states drawn given what was done and seen, by names or numbers."""
        did = np.array([self.base.action(each) for each in actions], dtype=int)
        seen = np.array([self.base.observation(each) for each in observations], dtype=int)
        if len(did) != len(seen):
            raise DataError(f"actions and observations must be as many, found {len(did)} and {len(seen)}")
        path = self._path(self.sample(seed), did, seen, np.random.default_rng((seed, 1)))
        moves, shows = self.moves.copy(), self.shows.copy()
        np.add.at(moves, (did, path[:-1], path[1:]), 1.0)
        np.add.at(shows, (did, path[1:], seen), 1.0)
        return POMDPBelief(self.base, moves, shows)

    def _model(self, moves: np.ndarray, shows: np.ndarray) -> POMDP:
        base, over = self.base, np.flatnonzero(self.base.terminal)
        states, actions, seen = base.state_names, base.action_names, base.observation_names
        named: dict[str, Any] = {"terminal": over, "states": states, "actions": actions, "observations": seen}
        return POMDP(list(moves), list(shows), base.rewards, base.discount, base.start, **named)

    def _path(self, model: POMDP, did: np.ndarray, seen: np.ndarray, random: np.random.Generator) -> np.ndarray:
        beliefs = [model.belief()]
        for action, what in zip(did.tolist(), seen.tolist(), strict=True):
            beliefs.append(beliefs[-1].condition(action, what))
        path = np.empty(len(did) + 1, dtype=int)
        path[-1] = random.choice(len(model.start), p=beliefs[-1].probs)
        for t in range(len(did) - 1, -1, -1):
            back = beliefs[t].probs * model.transitions[did[t]][:, [path[t + 1]]].toarray().ravel()
            path[t] = random.choice(len(back), p=back / back.sum())
        return path


def act_and_learn(
    world: POMDP, belief: POMDPBelief, episodes: int, *, steps: int = 50, seed: int = 0, **limits: Any
) -> tuple[POMDPBelief, list[Episode]]:
    """Episodes in a world of which only `belief` is known: each is planned in a model drawn from it, then learned from.

    `limits` are those of `credo.solve`, such as gap= and seconds=.
    """
    check_count(episodes, "episodes")
    check_count(steps, "steps")
    done = []
    for k in range(episodes):
        plan = solve(belief.sample(seed + k), **{"gap": 0.05, "seconds": 5.0, **limits})
        draws, believed = Simulator(world, seed + k + episodes), plan.world.belief()
        state, did, seen, earned = draws.begin(1), list[int](), list[int](), 0.0
        for t in range(steps):
            action = plan.world.action(plan.act(believed))
            state, shown, paid = draws.step(state, np.array([action]))
            did.append(action)
            seen.append(int(shown[0]))
            earned += world.discount**t * float(paid[0])
            if draws.terminal[state[0]]:
                break
            believed = believed.condition(action, seen[-1])
        done.append(Episode(np.array(did), np.array(seen), earned))
        belief = belief.condition(done[-1].actions, done[-1].observations, seed=seed + k)
    return belief, done


def _dirichlet(random: np.random.Generator, counts: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):  # by logarithms: gamma draws of small counts are zero
        logs = np.log(random.standard_gamma(counts + 1)) + np.log(random.random(counts.shape)) / counts
    shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
