"""Campaigns: experiments that run for weeks, by many hands, and survive what happens in weeks."""

from credo.decide.campaign.campaign import Campaign as Campaign
from credo.decide.campaign.command import Command as Command
from credo.decide.campaign.command import CommandFailed as CommandFailed
from credo.decide.campaign.model_slices import slices as slices
from credo.decide.campaign.problem import Best as Best
from credo.decide.campaign.problem import Bound as Bound
from credo.decide.campaign.problem import Observations as Observations
from credo.decide.campaign.problem import Problem as Problem
from credo.decide.campaign.schema import StorageError as StorageError
from credo.decide.campaign.sensitivity import importances as importances
from credo.decide.campaign.storage import Storage as Storage
from credo.decide.campaign.trial import Suggestion as Suggestion
from credo.decide.campaign.trial import Trial as Trial
from credo.decide.campaign.trial import TrialError as TrialError
