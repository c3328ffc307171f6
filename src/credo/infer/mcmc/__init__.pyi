"""Markov chain Monte Carlo: samplers, the chains that run them, and what they leave behind."""

from credo.infer.mcmc.chains import Sampler as Sampler
from credo.infer.mcmc.draws import Draws as Draws
from credo.infer.mcmc.gibbs import Gibbs as Gibbs
from credo.infer.mcmc.gibbs import Mean as Mean
from credo.infer.mcmc.gibbs import Probabilities as Probabilities
from credo.infer.mcmc.gibbs import Rate as Rate
from credo.infer.mcmc.gibbs import Variance as Variance
from credo.infer.mcmc.gibbs import conjugate_blocks as conjugate_blocks
from credo.infer.mcmc.hmc import HMC as HMC
from credo.infer.mcmc.langevin import MALA as MALA
from credo.infer.mcmc.langevin import ULA as ULA
from credo.infer.mcmc.metropolis import ComponentWise as ComponentWise
from credo.infer.mcmc.metropolis import MetropolisHastings as MetropolisHastings
from credo.infer.mcmc.metropolis import RandomWalk as RandomWalk
from credo.infer.mcmc.nuts import NUTS as NUTS
from credo.infer.mcmc.pathfinder import Pathfinder as Pathfinder
from credo.infer.mcmc.sgld import SGLD as SGLD
from credo.infer.mcmc.smc import SMC as SMC
from credo.infer.mcmc.smc import Particles as Particles
