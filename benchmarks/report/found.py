"""What the records say, for the sections of the report."""

from collections import defaultdict
from dataclasses import dataclass, field

from ..harness.plan import ORDER, parts, pieces
from ..harness.records import every
from .markdown import pieces as tables_in

NAMED = 4  # missing pieces of a part that are named


@dataclass
class Found:
    """Records of every part: of the full size where there is one with figures, else of the quick
    one; each of its pieces, or of all of it in one.

    Attributes
    ----------
    records : dict from name to list of Record
    asked : list of str
        Names of the parts that were asked for, for the origin of a section.
    """

    records: dict
    asked: list = field(default_factory=list)

    @classmethod
    def here(cls):
        chosen = {f"{name}-{part}": [] for name in ORDER for part in parts(name)}
        for size in ("quick", "full"):
            grouped = defaultdict(list)
            for record in every(size).values():
                grouped[record.job.whole].append(record)
            for name in chosen.keys() & grouped.keys():
                done = [record for record in grouped[name] if record.status == "done"]
                cut = [record for record in done if record.piece]
                chosen[name] = cut or done or chosen[name] or grouped[name]
        return cls(chosen)

    def tables(self, name):
        """Tables of a part, by title, of all its pieces."""
        self.asked.append(name)
        found = defaultdict(list)
        for record in self.records.get(name, ()):
            for title, rows in tables_in(record.rows):
                found[title] += rows
        return dict(found)

    def rows(self, name, table=""):
        """Rows of the one table of a part, or of the named one."""
        return self.tables(name).get(table, [])

    def index(self, name, *keys, table=""):
        """Rows by the values of some columns."""
        return {tuple(row[key] for key in keys): row for row in self.rows(name, table)}

    def full(self, name, table=""):
        """Rows of a part that were found at the full size."""
        rows = self.rows(name, table)
        return rows if any(record.size == "full" for record in self.records[name]) else []

    def lacking(self, name):
        """What of the full size of a part has no figures, and why if that is known."""
        records = self.records.get(name, ())
        done = {r.piece for r in records if r.status == "done" and r.size == "full"}
        if "" in done:
            return []
        benchmark, _, part = name.partition("-")
        reasons = {record.reason for record in records if record.status != "done"}
        why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
        every_one = pieces(benchmark, part)
        missing = [piece for piece in every_one if piece not in done]
        if len(missing) == len(every_one):
            return [name + why]
        if len(missing) > NAMED:
            return [f"{name}, {len(missing)} of {len(every_one)} pieces"]
        return [f"{name}, {piece}" for piece in missing]

    def origin(self):
        """A line on the records that were asked for since it was last called."""
        names, self.asked = list(dict.fromkeys(self.asked)), []
        lines = [text for name in names if (text := self._line(name))]
        return "".join(f"*{line}*\\\n" for line in lines).removesuffix("\\\n") + "\n"

    def _line(self, name):
        done = [record for record in self.records[name] if record.status == "done"]
        said = f"`{name}`"
        if not done:
            return f"{said}: no figures"
        said += f": {done[0].title} " if done[0].title else ": "
        commits = sorted({record.commit for record in done})
        sizes = "full size" if done[0].size == "full" else "QUICK size, small and not to be quoted"
        said += f"({sizes}, {machine(done[0])}, commit {', '.join(commits)}"
        missing = self.lacking(name) if done[0].size == "full" else []
        return f"{said}; missing: {', '.join(missing)})" if missing else said + ")"


def machine(record):
    """What a record was made on, in words."""
    of = record.machine
    return f"{of['GPU']}" if "GPU" in of else f"{of.get('cores', '?')} cores"
