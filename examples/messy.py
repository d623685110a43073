"""A table as it comes: missing entries, dates, an identifier, copies of rows, a rare class.

    python examples/messy.py patients.csv new.csv
    manykernels train patients.csv --out patients.mk --drop patient_id --holdout 0.25
    manykernels predict patients.mk new.csv
    manykernels report patients.mk new.csv --out report.html

`train` says what it makes of all that; nothing has to be done to the file before.
"""

import sys

import numpy as np
import pandas as pd


def patients(n=300, seed=0):
    """A frame of patients, most of them healthy, and whether they fell ill."""
    rng = np.random.default_rng(seed)
    age, weight = rng.normal(60, 12, n).round(), rng.normal(75, 12, n).round(1)
    first = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")
    marker = rng.lognormal(0.0, 0.5, n).round(3)
    smoker = rng.choice(["yes", "no", "former"], n, p=[0.25, 0.5, 0.25])
    risk = 0.06 * (age - 60) + 1.2 * np.log(marker) + 1.0 * (smoker == "yes") - 1.0
    risk = risk + 0.002 * (first - first.min()).days + rng.logistic(size=n)
    outcome = np.where(risk > 0.8, "ill", "healthy").astype(object)
    outcome[rng.choice(n, 4, replace=False)] = "dead"
    frame = pd.DataFrame(
        {
            "patient_id": 1000 + np.arange(n),
            "age": age,
            "weight": weight,
            "first_visit": first.strftime("%Y-%m-%d"),
            "month": first.strftime("%Y-%m"),
            "marker": marker,
            "smoker": smoker,
            "hospital": rng.choice(["north", "south", "east"], n, p=[0.5, 0.49, 0.01]),
            "comment": np.nan,
            "outcome": outcome,
        }
    )
    for name, share in (("age", 0.02), ("marker", 0.15), ("smoker", 0.1), ("first_visit", 0.03)):
        frame.loc[rng.random(n) < share, name] = None
    copies = frame.sample(n // 20, random_state=seed)
    copies["patient_id"] = 1000 + n + np.arange(len(copies))
    return pd.concat([frame, copies], ignore_index=True)


if __name__ == "__main__":
    patients().to_csv(sys.argv[1], index=False)
    new = patients(100, seed=1)
    new.loc[:2, "hospital"] = "west"  # of which the training rows say nothing
    new.loc[3, "weight"] = None  # which no training row lacks
    new.to_csv(sys.argv[2], index=False)
