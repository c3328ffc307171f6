"""The vocabulary every other folder speaks: arrays, parameters, linear algebra, Gaussians, predictions, files."""

import os

from credo.core.configure import configure

if os.environ.get("CREDO_CONFIGURE") != "0":
    configure()
