"""Campaigns: experiments that run for weeks, by many hands, and survive what happens in weeks.

    campaign ─ask─▶ engine (a model of the record) ─▶ storage (reserved, leased) ─▶ a worker ─tell─▶ storage

The storage is the only truth. SQLAlchemy loads with the first campaign.
"""

from credo.lazy import attach

__all__, __getattr__, __dir__ = attach(__name__, __file__)
