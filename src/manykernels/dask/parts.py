"""Parts of a problem on a cluster, which answer questions.

A part is what a task makes of its recipe: some kernels on all points, or the factors of some of the
points. Its worker may die, be retired or be paused at any time: the scheduler knows the recipe and
has the part made again elsewhere. A question is a pure function of a part and what is asked,
without a worker of its own, so it can be asked again. Nothing is scattered, and no graph outlives a
question.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self

from distributed import Future

from .cluster import Cluster

FAN = 4  # answers that are added up at once


class Parts:
    """Parts of a problem on a cluster.

    Parameters
    ----------
    cluster : Cluster
    name : str
        What the tasks that make them are called.
    recipe : callable
        Makes a part.
    arguments : list of tuple
        Of the recipe, one for each part; futures among them are what they stand for.
    again : callable, optional
        Gives the arguments anew, if parts have to be made by other tasks; they are not kept, since
        they may be large, or futures of what is better forgotten.
    spread : bool
        Whether they are shared out evenly among the workers, and not to those who hold what they
        are made of.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        recipe: Callable,
        arguments: Sequence[tuple],
        again: Callable[[], Sequence[tuple]] | None = None,
        spread: bool = False,
    ) -> None:
        self.cluster, self.name, self.recipe, self.again = cluster, name, recipe, again
        self.futures = (cluster.spread if spread else cluster.submit)(name, recipe, arguments)

    def made(self, name: str, recipe: Callable, *shared: Any, each: Sequence | None = None) -> Self:
        """Parts that are made of these: ``recipe(part, *shared, own)``, as in `ask`."""
        return type(self)(self.cluster, name, answer, self._told(recipe, shared, each))

    def __len__(self) -> int:
        return len(self.futures)

    def ask(self, question: Callable, *shared: Any, each: Sequence | None = None) -> list:
        """``[question(part, *shared, own) for part, own in zip(parts, each)]``.

        Parameters
        ----------
        question : callable
            A pure function.
        shared : what all parts are told
        each : sequence, optional
            What every part is told besides.
        """
        return self._round(lambda: (self.asked(question, *shared, each=each), self.futures))

    def total(self, question: Callable, *shared: Any, each: Sequence | None = None) -> Any:
        """The sum of the answers, added up by the workers in a tree."""
        return added(self._round(lambda: self._tree(question, shared, each)))

    def _round(self, ask):
        def again():
            self._renew()
            return ask()

        return self.cluster.round(ask, again)

    def _renew(self):
        """Have parts that are not there made by other tasks."""
        late = [k for k, future in enumerate(self.futures) if not future.done()]
        if late and self.again is not None:
            given = self.again()
            made = self.cluster.submit(self.name, self.recipe, [given[k] for k in late])
            for k, future in zip(late, made, strict=True):
                self.futures[k] = future

    def _tree(self, question, shared, each):
        """Tasks whose answers add up to the sum, and those that they wait for."""
        answers, watched = self.asked(question, *shared, each=each), list(self.futures)
        while len(answers) > FAN:
            watched += answers
            groups = [(answers[first : first + FAN],) for first in range(0, len(answers), FAN)]
            answers = self.cluster.submit(f"add_{question.__name__}", added, groups)
        return answers, watched

    def asked(self, question: Callable, *shared: Any, each: Sequence | None = None) -> list[Future]:
        """The tasks of a question, as in `ask`."""
        return self.cluster.submit(question.__name__, answer, self._told(question, shared, each))

    def _told(self, question, shared, each):
        own = [()] * len(self) if each is None else [(one,) for one in each]
        pairs = zip(self.futures, own, strict=True)
        return [(future, question, shared, mine) for future, mine in pairs]


def given(value: Any) -> Any:
    """What many recipes have in common, as a task that can be run again."""
    return value


def answer(part: Any, question: Callable, shared: tuple, own: tuple) -> Any:
    """What a part says to a question."""
    return question(part, *shared, *own)


def added(answers: Sequence) -> Any:
    """The sum of arrays, or of tuples of arrays by place."""
    first = answers[0]
    if not isinstance(first, tuple):
        return sum(answers[1:], start=first)
    sums = [added(column) for column in zip(*answers, strict=True)]
    return type(first)(*sums) if hasattr(first, "_fields") else tuple(sums)
