"""Shapley values by sampling coalitions (KernelExplainer of shap) of a sum of Gaussians; prints
JSON.

Arguments: the file (see `benchmarks.shapley`), and how many coalitions are sampled for each row, 0
for the default.
"""

import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")


def main(path, samples):
    import shap

    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    points, beta = data["points"], data["beta"]
    norms = np.square(points).sum(axis=1)

    def decision(X):
        squares = np.square(X).sum(axis=1)[:, None] + norms - 2.0 * X @ points.T
        total = np.zeros(squares.shape)
        for weight, gamma in zip(data["weights"], data["gammas"], strict=True):
            total += weight * np.exp(-gamma * squares)
        return total @ beta + float(data["intercept"])

    explainer = shap.KernelExplainer(decision, data["background"])
    # its default keeps ten columns alone, which would be most of its error here
    options = {"nsamples": int(samples) or "auto", "silent": True, "l1_reg": False}
    explainer.shap_values(data["rows"][:1], **options | {"nsamples": 64})
    began = time.perf_counter()
    values = explainer.shap_values(data["rows"], **options)
    seconds = time.perf_counter() - began
    print()
    print(json.dumps({"seconds": seconds, "values": np.asarray(values).tolist()}))


main(*sys.argv[1:])
