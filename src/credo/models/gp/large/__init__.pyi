"""Gaussian processes without a limit on rows: one module for each approximation, and the choice between them."""

from credo.models.gp.large.choice import Exact as Exact
from credo.models.gp.large.choice import choose_latent as choose_latent
from credo.models.gp.large.choice import choose_method as choose_method
from credo.models.gp.large.fourier import Fourier as Fourier
from credo.models.gp.large.fourier import FourierGP as FourierGP
from credo.models.gp.large.inducing import Inducing as Inducing
from credo.models.gp.large.inducing import InducingGP as InducingGP
from credo.models.gp.large.local import Local as Local
from credo.models.gp.large.local import LocalGP as LocalGP
from credo.models.gp.large.neighbours import Neighbours as Neighbours
from credo.models.gp.large.neighbours import NeighboursGP as NeighboursGP
from credo.models.gp.large.random_features import RandomFeatures as RandomFeatures
from credo.models.gp.large.random_features import RandomFeaturesGP as RandomFeaturesGP
from credo.models.gp.large.ski import SKI as SKI
from credo.models.gp.large.ski import SKIGP as SKIGP
