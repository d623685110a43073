#!/usr/bin/env bash
# Benchmarks of the GPU on four cores and, beside them, benchmarks of the processor, six at once on
# two cores each, on a machine of 16 cores that has no installation of the package, in so many
# minutes (a fourth argument: how many at once; 12 for figures that are not of time):
#
#   MANYKERNELS_COMMIT=... MANYKERNELS_DATA=... benchmarks/beside.sh 9 "gpu gpu_grids" "lowrank mwu"
#
# What is new comes back in $OUT/records.tgz: records, logs, and what jobs that were ended had made,
# which the next run goes on with where it finds it in out/logs.
set -uo pipefail
cd "$(dirname "$0")/.."
minutes=$1 on_gpu=$2 on_cores=$3 at_once=${4:-6} out=${OUT:-out}
export PYTHONPATH=src:.
mkdir -p out/logs
touch out/begun
# names are apart from each other by spaces
# shellcheck disable=SC2086
{
    taskset -c 0-3 python3 -m benchmarks.harness --size full --minutes "$minutes" $on_gpu >out/gpu.txt 2>&1 &
    taskset -c 4-15 python3 -m benchmarks.harness --size full --at-once "$at_once" --minutes "$minutes" $on_cores >out/cores.txt 2>&1 &
    wait
}
find benchmarks/results out/logs -type f -newer out/begun -print0 | tar czf "$out/records.tgz" --null -T -
tail -n 40 out/gpu.txt out/cores.txt
