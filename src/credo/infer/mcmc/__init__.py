"""Markov chain Monte Carlo: samplers, the chains that run them, and what they leave behind."""

from credo.infer.mcmc.chains import Sampler
from credo.infer.mcmc.draws import Draws
from credo.infer.mcmc.gibbs import Gibbs, Mean, Probabilities, Rate, Variance, conjugate_blocks
from credo.infer.mcmc.hmc import HMC
from credo.infer.mcmc.langevin import MALA, ULA
from credo.infer.mcmc.metropolis import ComponentWise, MetropolisHastings, RandomWalk
from credo.infer.mcmc.nuts import NUTS
from credo.infer.mcmc.pathfinder import Pathfinder
from credo.infer.mcmc.sgld import SGLD
from credo.infer.mcmc.smc import SMC, Particles

__all__ = [
    "HMC",
    "MALA",
    "NUTS",
    "SGLD",
    "SMC",
    "ULA",
    "ComponentWise",
    "Draws",
    "Gibbs",
    "Mean",
    "MetropolisHastings",
    "Particles",
    "Pathfinder",
    "Probabilities",
    "RandomWalk",
    "Rate",
    "Sampler",
    "Variance",
    "conjugate_blocks",
]
