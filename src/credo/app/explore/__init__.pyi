"""What is in a table, when nobody has said what to predict: clusters, factors, gaps and odd rows."""

from credo.app.explore.exploration import Exploration as Exploration
from credo.app.explore.exploration import explore as explore
