"""From a prepared table to the model that predicts it best."""
