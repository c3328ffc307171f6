"""Neural networks with both kinds of doubt: ensembles, dropout, and any method of `credo.infer` over their weights."""

from credo.models.neural.belief import Neural as Neural
from credo.models.neural.continued import Further as Further
from credo.models.neural.continued import Streamed as Streamed
from credo.models.neural.layers import Categories as Categories
from credo.models.neural.layers import Image as Image
from credo.models.neural.layers import QuantileBins as QuantileBins
from credo.models.neural.layers import Residual as Residual
from credo.models.neural.layers import Standardize as Standardize
from credo.models.neural.mean_field import BayesByBackprop as BayesByBackprop
from credo.models.neural.methods import DropConnect as DropConnect
from credo.models.neural.methods import Dropout as Dropout
from credo.models.neural.methods import Ensemble as Ensemble
from credo.models.neural.methods import LastLayer as LastLayer
from credo.models.neural.methods import Stacked as Stacked
from credo.models.neural.network import Network as Network
