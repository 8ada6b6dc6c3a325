#!/usr/bin/env bash
# Every figure of docs/performance.md's list on an accelerator, in at most 25 minutes.
#
#     bash benchmarks/accelerator.sh RESULTS [--seconds 570] [--small]
#
# A step writes RESULTS/STEP.json, and a step whose file is there is skipped: run the same command
# again until it exits with 0. A step is begun only where its limit fits into what is left of
# --seconds (default: no limit); what fits no more is left for the next call, and the exit code is
# 3. A step that fails, or takes longer than its limit, says so in its file and is not tried again:
# delete the file to try it. At the end RESULTS/summary.md, also printed, has a row for each step.
# --small rehearses all of it on any machine, with small sizes whose figures mean nothing.
# `--steps` prints each step with its limit in seconds.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

results='' budget=1000000 small='' only_list=''
while (($#)); do
    case $1 in
        --seconds) budget=$2 && shift 2 ;;
        --small) small=yes && shift ;;
        --steps) only_list=yes && shift ;;
        -*) echo "accelerator.sh: expected --seconds N, --small or --steps, got $1" >&2 && exit 2 ;;
        *) results=$1 && shift ;;
    esac
done
if [[ -z $only_list ]]; then
    [[ -n $results ]] || { echo 'usage: accelerator.sh RESULTS [--seconds N] [--small]' >&2; exit 2; }
    mkdir -p "$results"
    results=$(cd "$results" && pwd)
fi

python=${PYTHON:-python}
export MPLBACKEND=agg PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
games=$results/games.safetensors run=$results/run ippo=$results/ippo
update='benchmarks/update.py --envs 1024 --steps 128 --compiles 1 --repeats 5 --json'
steps_size='--num-envs 8192 --repeats 9' cloned='--games 1000 --repeats 2' demos=1000
learner='--preset quick --num-players 3 --num-envs 1024 --total-steps 30e6' longer='' scale=1
paper="--preset 2p-1k --bc.data $games --bc.epochs 2 --bc.selfplay-games 256"
if [[ -n $small ]]; then
    update='benchmarks/update.py --envs 16 --steps 4 --compiles 1 --repeats 1 --json'
    steps_size='--num-envs 32 --repeats 1' cloned='--games 16 --batch-size 8 --repeats 1' demos=128
    few='--num-envs 64 --num-steps 16 --eval-games 1000 --report-games 1000'
    learner="--preset quick --num-players 3 --total-steps 4000 $few"
    paper="--preset quick-lstm --bc.data $games --bc.epochs 1 --bc.selfplay-games 1000 --total-steps 4000 $few"
    longer='--total-steps 8000' scale=8 # nothing is interrupted, and a busy machine may take its time
fi

# What is measured: name, limit in seconds, command. `run_for` is told to stop after so many seconds,
# saves and counts as done.
steps() {
    step devices 30 $python benchmarks/accelerator_table.py devices ${small:+--any}
    step env_steps 90 $python benchmarks/env_steps.py --players 2 $steps_size --json
    step update 180 $python $update --sides ours,float32
    step ippo 130 run_for 110 "$ippo" train/ippo.py $learner --run-dir "$ippo" --no-tensorboard
    step games 40 $python -m hanabi_rl data demos --games $demos --out "$games"
    step hdr_ippo 140 run_for 115 "$run" train/hdr_ippo.py $paper --run-dir "$run" --no-tensorboard
    step hdr_ippo_resumed 60 run_for 40 "$run" train/hdr_ippo.py --resume --run-dir "$run" $longer
    step bc_epoch 240 $python benchmarks/bc_epoch.py $cloned --json
    # the compilation once took 220 s on one core
    step update_plain 195 $python $update --sides plain
    step update_plain_bfloat16 195 env JAX_DEFAULT_MATMUL_PRECISION=bfloat16 $python $update --sides plain
    step update_plain_highest 195 env JAX_DEFAULT_MATMUL_PRECISION=highest $python $update --sides plain
}

step() {
    local name=$1 limit=$(($2 * scale)) began=$SECONDS code=0
    [[ -n $only_list ]] && { echo "$name $limit"; return; }
    shift 2
    [[ -e $results/$name.json ]] && return
    if ((SECONDS + limit > budget)); then
        left+=("$name") && return
    fi
    # what it goes on from is left too
    [[ $name == hdr_ippo* && ! -e $results/games.json ]] && left+=("$name") && return
    [[ $name == *_resumed && ! -e $results/hdr_ippo.json ]] && left+=("$name") && return
    echo "== $name, at most $limit s" >&2
    if [[ $1 == run_for ]]; then
        "$@" > "$results/$name.out" 2> "$results/$name.log" || code=$?
    else
        timeout -k 10 "$limit" "$@" > "$results/$name.out" 2> "$results/$name.log" || code=$?
    fi
    ((code == 124 || code == 137)) && why="over its limit of $limit s" || why="exit code $code"
    if ((code)); then
        echo "{\"failed\": \"$why\", \"took_s\": $((SECONDS - began))}" > "$results/$name.part"
    else
        $python benchmarks/accelerator_table.py keep "$results/$name.out" $((SECONDS - began)) > "$results/$name.part"
    fi
    mv "$results/$name.part" "$results/$name.json" # whole or not at all
    [[ $name == devices ]] && ((code)) && { tail -n 1 "$results/$name.log" >&2; rm "$results/$name.json"; exit 2; }
    return 0
}

# run_for SECONDS RUN_DIR SCRIPT ...: trains until it ends or is told to; then what its metrics say.
run_for() {
    local seconds=$(($1 * scale)) folder=$2 code=0
    shift 2
    [[ " $* " == *' --resume '* ]] || rm -rf "$folder" # what a call that was killed left
    local before=0
    [[ -e $folder/metrics.jsonl ]] && before=$(wc -l < "$folder/metrics.jsonl")
    timeout -s TERM -k 20 "$seconds" $python "$@" >&2 || code=$?
    ((code == 0 || code == 124)) || return $code
    $python benchmarks/accelerator_table.py rate "$folder" "$before"
}

left=() why=''
steps
[[ -n $only_list ]] && exit 0
$python benchmarks/accelerator_table.py table "$results" | tee "$results/summary.md"
if ((${#left[@]})); then
    echo "left for the same command again: ${left[*]}" >&2
    exit 3
fi
