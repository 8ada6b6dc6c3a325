#!/usr/bin/env bash
# huggingface_hub 2.4.0: ModelCardData and the `model-index` of a model card.
#
# Behaviour: two EvalResults with the same task_type and dataset_type but different dataset_name
# become one result under the first dataset_name, without a warning. The card then shows the second
# metric as measured on the first data set, and reading the card gives both results the first name.
# Different dataset_config, dataset_split or dataset_revision keep the results apart; dataset_name
# does not.
#
# Guess beforehand: two results, each with its own dataset_name, because the card shows that name.
#
# Seen: results: 1; data sets: ['games of bots']; metrics: ['mean_reward', 'accuracy']
#       read back: [('mean_reward', 'games of bots'), ('accuracy', 'games of bots')]
#       with dataset_config: ['games of bots', 'games of people']
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet huggingface_hub==2.4.0
"$folder/venv/bin/python" - <<'PYTHON'
import sys

from huggingface_hub import EvalResult, ModelCard, ModelCardData


def card(**second):
    results = [
        EvalResult("x", "hanabi", "games of bots", "mean_reward", 20.5),
        EvalResult("x", "hanabi", "games of people", "accuracy", 0.5, **second),
    ]
    return ModelCardData(model_name="a", eval_results=results)


def names(data):
    return [each["dataset"]["name"] for each in data.to_dict()["model-index"][0]["results"]]


found = card().to_dict()["model-index"][0]["results"]
metrics = [metric["type"] for each in found for metric in each["metrics"]]
print(f"results: {len(found)}; data sets: {names(card())}; metrics: {metrics}")
back = ModelCard(f"---\n{card().to_yaml()}\n---\n").data.eval_results
pairs = [(each.metric_type, each.dataset_name) for each in back]
print(f"read back: {pairs}")
apart = names(card(dataset_config="people"))
print(f"with dataset_config: {apart}")
as_noted = names(card()) == ["games of bots"] and apart == ["games of bots", "games of people"]
sys.exit(0 if as_noted and {name for _, name in pairs} == {"games of bots"} else 1)
PYTHON
