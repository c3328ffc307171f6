"""Partially observable Markov decision processes: worlds whose state is hidden, and the best way to act in them."""

from credo.decide.pomdp.belief import BeliefState as BeliefState
from credo.decide.pomdp.belief_world import BeliefWorld as BeliefWorld
from credo.decide.pomdp.despot import DESPOT as DESPOT
from credo.decide.pomdp.learning import POMDPBelief as POMDPBelief
from credo.decide.pomdp.learning import act_and_learn as act_and_learn
from credo.decide.pomdp.methods import FIB as FIB
from credo.decide.pomdp.methods import HSVI as HSVI
from credo.decide.pomdp.methods import PBVI as PBVI
from credo.decide.pomdp.methods import QMDP as QMDP
from credo.decide.pomdp.methods import SARSOP as SARSOP
from credo.decide.pomdp.methods import Limits as Limits
from credo.decide.pomdp.methods import Perseus as Perseus
from credo.decide.pomdp.methods import POMDPPlanner as POMDPPlanner
from credo.decide.pomdp.methods import ValueIteration as ValueIteration
from credo.decide.pomdp.model import POMDP as POMDP
from credo.decide.pomdp.online import POMCP as POMCP
from credo.decide.pomdp.online import OnlinePlanner as OnlinePlanner
from credo.decide.pomdp.plan import AlphaPlan as AlphaPlan
from credo.decide.pomdp.simulators import FiniteWorld as FiniteWorld
from credo.decide.pomdp.simulators import GymWorld as GymWorld
from credo.decide.pomdp.simulators import StateSpaceWorld as StateSpaceWorld
from credo.decide.pomdp.simulators import World as World
from credo.decide.pomdp.vectors import AlphaVectors as AlphaVectors
