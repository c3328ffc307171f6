"""Every storage passes the same tests: SQLite, and PostgreSQL where CREDO_TEST_POSTGRES says where it is."""

import os
import uuid

import pytest

from credo.decide.campaign.campaign import Campaign
from credo.decide.campaign.storage import Storage
from credo.decide.campaign.trial import Suggestion
from credo.decide.space import Real, Space


@pytest.fixture
def postgres():
    """The URL of an empty schema."""
    import sqlalchemy as sa

    url = os.environ.get("CREDO_TEST_POSTGRES")
    if url is None:
        if os.environ.get("CREDO_REQUIRE_POSTGRES") == "1":
            pytest.fail("CREDO_REQUIRE_POSTGRES=1, but CREDO_TEST_POSTGRES has no URL of a PostgreSQL server")
        pytest.skip("PostgreSQL: CREDO_TEST_POSTGRES has no URL; run `make test-postgres`")
    schema = f"credo_{uuid.uuid4().hex}"
    engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    yield f"{url}?options=-csearch_path%3D{schema}"
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def target(request, tmp_path):
    """Where a storage can be made: each test that takes it runs on both databases."""
    if request.param == "sqlite":
        return str(tmp_path / "campaign.db")
    return request.getfixturevalue("postgres")


@pytest.fixture
def storage(target):
    opened = Storage.open(target)
    yield opened
    opened.close()


@pytest.fixture
def space():
    return Space({"x": Real(0.0, 1.0), "y": Real(-1.0, 1.0)})


@pytest.fixture
def without_model(monkeypatch):
    """Suggestions are points of a Sobol sequence, all clients the same: the worst case of many workers."""

    def suggest(self, memory, n, seed):
        points = self.problem.space.sample(n, seed=self.problem.seed, skip=len(memory))
        return [Suggestion(point, "design", "In order.") for point in points]

    monkeypatch.setattr(Campaign, "_suggest", suggest)
