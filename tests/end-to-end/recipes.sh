#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# recipes.sh HETPIPE SOURCE: every command of docs/recipes.md, on little data and with small models where the recipe's is a
# large one: what is different here are options behind the document's own, which take precedence.
set -uo pipefail
hetpipe=$1
source=$2
. "$(dirname "$0")/fashion_scratch.sh"
cd "$folder" || exit 1
export HETPIPE_CACHE=$folder/cache OMPI_MCA_rmaps_base_oversubscribe=1
PATH=$(dirname "$hetpipe"):$PATH
failed=0
fail() { echo "FAILED: $*"; failed=1; }
page=$source/docs/recipes.md

# --- what the document's commands find ----------------------------------------------------------------------
sed 's/slowdown = [0-9.]*/slowdown = 1.0/' "$source/cluster-configs/fashion-quickstart.toml" > cluster.toml
head -c 40000 "$source/docs/training.md" > input.txt
for name in openwebtext books; do
  mkdir $name
  # Tokens of 16 bits: each byte of the text and a zero.
  for split in train val; do
    head -c 4000 input.txt | LC_ALL=C tr '\n\200-\377' ' ' | LC_ALL=C sed 's/./&\x00/g' > $name/$split.bin
  done
done
hetpipe data show --data fashion-mnist --count 9 --output image.png > out 2>&1 || fail "data show: $(cat out)"
for class in train/ankle train/bag val/ankle val/bag; do
  mkdir -p imagenet/$class
  for i in 1 2 3 4 5 6 7 8; do cp image.png imagenet/$class/$i.png; done
done
sed -n '/^# mine.toml$/,/^```$/p' "$page" | grep -v '^```' > mine.toml
[ "$(wc -l < mine.toml)" -ge 5 ] || fail "the document's own recipe is gone"

# --- its commands -----------------------------------------------------------------------------------------
# Lines of code blocks that start with a program, with the lines that continue them.
awk '/^```/ { inside = !inside; next }
     inside && (more || /^(hetpipe|mpirun) /) { line = line $0; more = sub(/\\$/, "", line); if (!more) { print line; line = "" } }' "$page" > commands
[ "$(wc -l < commands)" -ge 12 ] || fail "only $(wc -l < commands) commands in the document"

smaller() { # COMMAND: what follows the document's own options
  case $1 in
    *' --recipe imagenet-resnet50 '*) model="--model resnet-8 --train-transforms RandomResizedCrop(16),RandomHorizontalFlip --test-transforms Resize(20),CenterCrop(16)" ;;
    *' --recipe gpt2 '*) model="--model gpt2-tiny --data tokens:openwebtext,T=16,vocabulary=128" ;;
    *' --recipe bert-mlm '*) model="--model bert-tiny --data tokens:books,T=16,vocabulary=128" ;;
    *' --recipe fashion-resnet '*) model="--model mlp --epochs 0.005" ;;
    *mine.toml*) model="--epochs 0.01" ;;
    *) model="--epochs 0.02" ;;
  esac
  case $1 in
    *' sbatch '* | *--print-config*) ;;
    hetpipe\ profile*) echo "${model%%--epochs*} --minibatch 2" ;;
    hetpipe\ plan*) ;;
    *' --plan '*) echo "$model --lr-warmup 0.001 --trace off" ;;
    *' compare '*) echo "$model --evaluations 1 -- --lr-warmup 0.001 --minibatch 8 --trace off" ;;
    *' --recipe imagenet'* | *' --recipe gpt2 '* | *' --recipe bert'*)
      echo "$model --epochs 0.5 --lr-warmup 0.001 --minibatch 4 --micro-batches 1 --trace off" ;;
    *) echo "$model --lr-warmup 0.001 --minibatch 8 --trace off" ;;
  esac
}
number=0
while read -r command; do
  number=$((number + 1))
  start=$SECONDS
  # Words, not shell syntax: brackets are transforms.
  read -r -a words <<< "$command $(smaller "$command")"
  "${words[@]}" > said-$number 2> err-$number < /dev/null || fail "$command ended with $?: $(head -n 5 err-$number)"
  echo "$((SECONDS - start)) s: ${words[*]}"
done < commands

# --- and what came of them ----------------------------------------------------------------------------------
of() { grep -n -- "$1" commands | head -n 1 | cut -d : -f 1; } # the number of a command
says() { # COMMAND TEXT
  local said=said-$(of "$1")
  grep -q -F -- "$2" "$said" || fail "$1: '$2' is not in: $(head -c 2000 "$said")"
}
says '--output runs/nano' 'recipe gpt2-nano; --epochs was 1.53, is 0.02'
says '--output runs/fashion' '--minibatch was 128, is 8'
says '--print-config' 'optimizer = "adamw"'
grep -q '^minibatch = 12 ' plan.toml || fail "the plan's minibatch is not the recipe's: $(grep minibatch plan.toml)"
grep -q '^optimizer = "adamw"$' plan.toml || fail "the plan's optimizer is not the recipe's"
[ "$(grep -c '^betas = \[0.9, 0.99\]$' runs/nano/config.toml)" -eq 1 ] || fail "the run has other betas: $(grep betas runs/nano/config.toml)"
grep -q '^micro-batches = 8$\|^micro_batches = 8$' resnet50-plan.toml || fail "the plan has no 8 micro-batches"
grep -q -- '--recipe bert-mlm' bert.sh || fail "the job does not read the recipe"
grep -q '^label-smoothing = 0.1$' runs/mine/config.toml && grep -q '^lr-schedule = "cosine"$' runs/mine/config.toml || fail "the run of mine.toml has other options"
for run in nano at-once fashion mine imagenet gpt2 bert; do
  grep -q '"exit": "finished"' runs/$run/result.json || fail "runs/$run did not come to its end"
done
exit $failed
