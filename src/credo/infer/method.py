"""What `using=` names: a method knows how to approximate a target, and so how to condition any belief that has one."""

from abc import abstractmethod
from typing import Any

from credo.infer.target import Target


class Method:
    """How a posterior without a closed form is computed; subclasses say how by `run`."""

    @abstractmethod
    def run(self, target: Target, seed: int = 0) -> Any:
        """The posterior of a target, with notes on whether to trust it."""

    def condition(self, belief: Any, *data: Any, seed: int = 0, **options: Any) -> Any:
        """The belief after the data, its numbers known as well as the method can tell: `belief.condition(using=…)`."""
        return belief.given(self.run(belief.target(belief.statistics(*data, **options)), seed))
