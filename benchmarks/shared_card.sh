# SPDX-License-Identifier: Apache-2.0
# Sourced by benchmarks/gpu, in a build tree and in a bundle: runs of ranks that share a card, for the tables gpu-shared
# and gpu-memory. Needs hetpipe, mpirun, device, smallest, output, row and noise.sh.

make_images() { # SAMPLES SIDE
  data=$output/work/images-$2
  [ ! -e "$data/made" ] || return 0
  make_pictures "$data" "$1" "$2" && touch "$data/made"
}
make_text() { # TOKENS
  data=text:$output/work/text,T=$1
  local bytes=2250000 # 2,636 windows of 1024 to train on
  [ -z "$smallest" ] || bytes=30000
  [ -e "$output/work/text" ] || head -c $bytes /dev/urandom | base64 -w 0 > "$output/work/text"
}
cluster() { # CARDS: each as large as a share of the real one
  printf 'format = 1\n[device.card]\nmemory = 20_000_000_000\n[[node]]\nname = "here"\ndevices = [%s]\n%s\n' \
    "$(printf '"card", %.0s' $(seq "$1") | sed 's/, $//')" $'[link.intra_node]\nbandwidth = 2e10\nlatency = 1e-5' > "$work/cards-$1.toml"
}

# A pipeline of four ranks with a flush: planners would rather replicate the whole model.
write_gpt2_plan() { # MODEL MINIBATCH CUT..., in $precision: layers where a stage begins, and one past the last
  local model=$1 minibatch=$2 i first=0
  shift 2
  printf 'format = 1\nsystem = "pipedream-flush"\nmodel = "%s"\nminibatch = %d\nmicro_batches = 4\noptimizer = "adam"\nprecision = "%s"\n[[virtual_worker]]\n' \
    "$model" "$minibatch" "$precision"
  for i in 0 1 2 3; do
    printf '[[virtual_worker.stage]]\nlayers = [%d, %d]\ndevices = ["here:%d"]\n' $first "$1" $i
    first=$1
    shift
  done
}

# prepare_sharing MODEL PRECISION: sets what a run is of, and makes data, profile and two plans: `whole`, of one rank, and
# `split`, of four stages, each under the impression that it has a card of its own. Images: HetPipe with a parameter server, five ranks.
# GPT-2: 1F1B, four ranks.
prepare_sharing() {
  local model=$1 optimizer=sgd-momentum micro=64 stages whole=(--system gpipe --micro-batches 1) cuts=(39 75 111 150)
  precision=$(arithmetic "$2")
  work=$output/work/$1-$2
  ranks=5
  mkdir -p "$work"
  if [ "$model" = gpt2 ]; then
    optimizer=adam micro=8 ranks=4
    whole=(--system pipedream-flush --micro-batches 4)
    make_text 1024
    epochs=0.6
    if [ $device = offload ]; then model=gpt2-tiny cuts=(12 22 32 45); make_text 64; epochs=0.01; fi
    [ -z "$smallest" ] || epochs=1
  else
    [ $device = offload ] || make_images 12288 224
    epochs=2
    if [ $device = offload ]; then model=resnet-20 micro=16; make_images 512 32; epochs=1; fi
    if [ -n "$smallest" ]; then model=lenet micro=4; make_images 96 28; fi
  fi
  local minibatch=$micro
  [ $ranks = 5 ] || minibatch=$((4 * micro))
  cluster 1 && cluster 4 &&
    "$hetpipe" profile --model "$model" --data "$data" --kind card --device $device --precision "$precision" --minibatch $micro \
      --output "$work/profile.toml" &&
    plan whole 1 "${whole[@]}" || return 1
  if [ $ranks = 4 ]; then
    write_gpt2_plan "$model" $minibatch "${cuts[@]}" > "$work/plan-split.toml"
  else
    plan split 4 --system hetpipe --in-flight 4 --virtual-workers 1 || return 1
  fi
  stages=$(grep -c '^\[\[virtual_worker.stage\]\]' "$work/plan-split.toml")
  [ "$stages" -eq 4 ] || { echo "the plan for four cards has $stages stages" >&2; return 1; }
}
plan() { # NAME CARDS OPTION...: with prepare_sharing's variables
  "$hetpipe" plan --cluster "$work/cards-$2.toml" --profile "$work/profile.toml" "${@:3}" --minibatch $minibatch \
    --precision "$precision" --optimizer $optimizer --data "$data" --output "$work/plan-$1.toml"
}

train() { # RUN PLAN SHARE_OF_EPOCHS OPTION...
  local processes=1
  [ "$2" = whole ] || processes=$ranks
  rm -rf "${work:?}/$1"
  "$mpirun" --oversubscribe --bind-to none -n $processes "$hetpipe" train --plan "$work/plan-$2.toml" --data "$data" \
    --device $device --precision "$precision" --epochs "$(awk -v e="$epochs" -v s="$3" 'BEGIN {print e * s}')" \
    --learning-rate 0.0001 --output "$work/$1" --trace off "${@:4}" > "$work/$1.txt" 2>&1 || { tail -n 20 "$work/$1.txt" >&2; return 1; }
  cat "$work/$1.txt" >&2
}
# Mean samples/s of a run's waves but the first fifth and the last: equal numbers of samples, so the harmonic mean.
steady() { # RUN
  grep -o '[0-9]* samples/s  stale' "$work/$1.txt" |
    awk '{v[NR] = $1} END {for (i = int(NR / 5) + 1; i < NR; i++) {s += 1 / v[i]; n++} if (n) printf "%.2f\n", n / s; else exit 1}'
}
# How messages went from stage to stage.
path_of() { sed -n 's/^[0-9]* - [0-9]* *\([a-z]*\) .*/\1/p' "$work/$1.txt" | sort -u | paste -sd ' '; }

# Of each stage the peak, as its allocator counted, against the plan's ledger.
memory_of() { # RUN PLAN
  local predicted measured i cards=1
  [ "$2" = whole ] || cards=4
  predicted=($("$hetpipe" simulate --cluster "$work/cards-$cards.toml" --profile "$work/profile.toml" --plan "$work/plan-$2.toml" --json |
    sed -n 's/.*"peak_memory": \([0-9]*\).*/\1/p'))
  measured=($(sed -n 's/.*"peak_memory": \([0-9]*\).*/\1/p' "$work/$1/result.json"))
  [ ${#predicted[@]} -ge 1 ] && [ ${#predicted[@]} -eq ${#measured[@]} ] ||
    { echo "${#predicted[@]} stages predicted, ${#measured[@]} in the result" >&2; return 1; }
  for i in "${!predicted[@]}"; do
    awk -v r="${row#*-}, $1, stage $i" -v f="${predicted[i]}" -v m="${measured[i]}" 'BEGIN {e = m / f - 1
      printf "| %s | %.1f | %.1f | %+.1f %% | %s |\n", r, f / 1e6, m / 1e6, 100 * e, (e < 0.05 && e > -0.05) ? "yes" : "no"}'
  done
}

bench_shared() { # MODEL PRECISION
  local path all before after paths="auto staged ipc"
  [ -z "$smallest" ] || paths="auto ipc"
  prepare_sharing "$@" >&2 || return 1
  echo '{' > "$output/raw/$row.json"
  train whole whole 0.5 && memory_of whole whole > "$output/rows/ledger-$row" && before=$(steady whole) || return 1
  for path in $paths; do
    train "split-$path" split 1 --transport-path $path && all=$(steady "split-$path") || return 1
    [ $path != auto ] || memory_of split-auto split >> "$output/rows/ledger-$row" || return 1
    train whole whole 0.5 && after=$(steady whole) || return 1
    awk -v r="${row#shared-}, $ranks ranks, $path ($(path_of "split-$path"))" -v a="$all" -v b="$before" -v c="$after" 'BEGIN {
      ratio = 2 * a / (b + c); printf "| %s | %.1f | %.1f, %.1f | %.3f | %s |\n", r, a, b, c, ratio, (ratio >= 0.9) ? "yes" : "no"}' || return 1
    printf '"%s": {"split": %s, "whole": [%s, %s]},\n' "$path" "$all" "$before" "$after" >> "$output/raw/$row.json"
    before=$after
  done
  echo '"unit": "samples/s"}' >> "$output/raw/$row.json"
}

bench_memory() { # MODEL PRECISION
  prepare_sharing "$@" >&2 && train whole whole 0.1 && memory_of whole whole && train split split 0.1 && memory_of split split
}
