#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# supervise.sh HETPIPE SOURCE_DIR
# launch/supervise over hosts that die, freeze and come back: namespaces of this machine, each with a host name, processes
# and shared memory of its own, and an agent in place of ssh. Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
hetpipe=$1
supervise=$2/launch/supervise
. "$2/tests/main/patience.sh"

skip() { echo "skipped: $*"; exit 77; }
for program in mpirun unshare nsenter setsid; do
  command -v "$program" > /dev/null || skip "$program is not installed"
done
namespaces=(--uts --pid --mount)
unshare "${namespaces[@]}" --mount-proc --fork bash -c 'hostname a && mount -t tmpfs tmpfs /dev/shm' 2> /dev/null ||
  skip "no namespaces for hosts can be made here (that takes root)"

folder=$(mktemp -d)
mkdir "$folder"/{hosts,data,tmp}
supervisor=
powered=()  # hosts
clean_up() {
  local code=$? host
  trap - EXIT
  if [ -n "$supervisor" ] && kill -0 "$supervisor" 2> /dev/null; then
    kill -KILL "$supervisor"
    for pid in $(children "$supervisor"); do kill -KILL "$pid" 2> /dev/null || true; done
  fi
  for host in "${powered[@]}"; do power_off "$host"; done
  rm -rf "$folder"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 143' INT TERM

failed() {
  echo "$*"
  [ ! -s "$folder/said" ] || { echo "--- what supervise and the training said:"; grep -v '^wave \|^checkpoint of' "$folder/said"; }
  exit 1
}
expect() { # SECONDS WHAT COMMAND...
  within "$@" || failed "$2 did not come"
}

# --- hosts ------------------------------------------------------------------------------------------------
children() { cat "/proc/$1/task/$1/children" 2> /dev/null || true; }

power_on() { # HOST
  mkdir -p "$folder/tmp-$1"
  unshare "${namespaces[@]}" --mount-proc --fork --kill-child bash -c "hostname $1
    mount -t tmpfs tmpfs /dev/shm
    touch $folder/hosts/$1.on
    while :; do sleep 100 & wait \$!; done" > /dev/null 2>&1 &
  echo $! > "$folder/hosts/$1.holder"
  disown  # its end is no news
  powered+=("$1")
  expect 10 "host $1" test -e "$folder/hosts/$1.on"
  children "$(cat "$folder/hosts/$1.holder")" | tr -d " " > "$folder/hosts/$1"
}
power_off() { # HOST: everything of it ends at once
  rm -f "$folder/hosts/$1" "$folder/hosts/$1.on"
  kill -KILL "$(cat "$folder/hosts/$1.holder")" 2> /dev/null || true
}
freeze() { # HOST: its daemon and its ranks stop where they are
  local init namespace process
  init=$(cat "$folder/hosts/$1")
  namespace=$(readlink "/proc/$init/ns/pid")
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/ns/pid")" = "$namespace" ] || continue
    case $(cat "$process/comm") in orted | hetpipe) kill -STOP "${process#/proc/}" ;; esac
  done 2> /dev/null
}
cat > "$folder/agent" << AGENT
#!/bin/bash
host=\$1
shift
init=\$(cat "$folder/hosts/\$host") || exit 255
exec nsenter --target \$init ${namespaces[*]} env TMPDIR="$folder/tmp-\$host" sh -c "\$*"
AGENT
chmod +x "$folder/agent"

# --- a small training: 10x10 images of four classes ---------------------------------------------------------------
this=$(uname -n)
. "$2/tests/main/small_mlp.sh"
samples=2048
images train $samples
images t10k 32
cat > "$folder/pool.toml" << POOL
format = 1
[device.small]
memory = 1_000_000_000
emulate = { slowdown = 1.0 }
[[node]]
name = "a"
devices = ["small", "small"]
[[node]]
name = "b"
devices = ["small"]
[[node]]
name = "c"
devices = ["small"]
[[node]]
name = "$this"
devices = []
[link.intra_node]
bandwidth = 10e9
[link.inter_node]
bandwidth = 1e9
POOL
cat > "$folder/hosts.txt" << HOSTS
# the pool, with as many ranks as each has devices
a slots=2
b slots = 1  # spaces may be
c
$this slots=1  # of parameters
HOSTS
run=$folder/run
train=("$hetpipe" train --pool "$folder/pool.toml" --profile "$folder/profile.toml" --model mlp --data "$folder/data"
  --device cpu --checkpoint-every 4 --timeout 10 --output "$run")
export TMPDIR=$folder/tmp OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo

# --- mistakes ---------------------------------------------------------------------------------------------
mistake() { # TEXT ARGUMENT...
  local code=0 text=$1
  shift
  "$supervise" "$@" > "$folder/said" 2>&1 || code=$?
  [ $code -eq 2 ] && grep -qF -- "$text" "$folder/said" || failed "supervise $*: exit code $code, and not 2 with '$text'"
}
hosts=(--hosts "$folder/hosts.txt" --agent "$folder/agent")
echo 'a slot=2' > "$folder/odd.txt"
mistake "unknown option '--host'" --host x
mistake "--attempts: '0' is not a whole number" "${hosts[@]}" --attempts 0 -- "${train[@]}"
mistake "--hosts: is missing" -- "${train[@]}"
mistake "odd.txt:1: 'slot=2' is not understood" --hosts "$folder/odd.txt" -- "${train[@]}"
mistake "the training is missing" "${hosts[@]}"
mistake "plan': cannot be supervised" "${hosts[@]}" -- "$hetpipe" plan
mistake "--plan: cannot be given here" "${hosts[@]}" -- "${train[@]}" --plan p.toml
mistake "--output: is missing" "${hosts[@]}" -- "$hetpipe" train --model mlp
[ ! -e "$run" ] || failed "a mistake left a run directory"
echo localhost > "$folder/alone.txt"
mistake "--epochs: 'x' (not a number)" --hosts "$folder/alone.txt" -- "$hetpipe" train --output "$folder/none" --model mlp --data d --epochs x
code=0
"$supervise" --hosts "$folder/alone.txt" --mpirun false --attempts 2 --pause 1 -- "${train[@]}" > "$folder/said" 2>&1 || code=$?
[ $code -eq 3 ] && grep -qx '2 attempts in a row made no progress beyond the start (last exit code 1).' "$folder/said" ||
  failed "an mpirun that fails: exit code $code, and not 3 after two attempts"

mistake "mpirun refuses to start ranks, and would again (exit code 1)" \
  --hosts "$folder/alone.txt" --mpirun "mpirun --no-such-option" -- "${train[@]}"
[ "$(grep -c '^== attempt' "$folder/said")" -eq 1 ] || failed "an mpirun that refuses was started again"

# --- hosts that die and come back --------------------------------------------------------------------------------
start() { # GRACE EPOCHS [OPTION of the training]...
  "$supervise" "${hosts[@]}" --pause 1 --grace "$1" -- "${train[@]}" --epochs "$2" "${@:3}" >> "$folder/said" 2>&1 &
  supervisor=$!
}
ended() { # CODE
  local code=0
  expect 30 "the end of supervise" eval "! kill -0 $supervisor"
  wait "$supervisor" || code=$?
  supervisor=
  [ $code -eq "$1" ] || failed "supervise ended with exit code $code, and not $1"
}
said() { grep -qE -- "$1" "$folder/said"; }
newest() { find "$run/checkpoints" -name 'checkpoint-*.h5' 2> /dev/null | sort | tail -n 1; }
further() { [[ $(newest) > $1 ]]; }
comes_further() { # BEFORE
  kill -0 $supervisor || failed "supervise has ended"
  expect 30 "a checkpoint after '$1'" further "$1"
}

: > "$folder/said"
for host in a b c; do power_on $host; done
start 15 200  # more than it comes to before it is stopped, however long all this takes
comes_further ""
cp "$run/hosts" "$folder/hosts.first"
code=0
"$supervise" --hosts "$folder/alone.txt" -- "${train[@]}" > "$folder/second" 2>&1 || code=$?
[ $code -eq 2 ] && grep -q "^--output $run: is supervised already (process $supervisor on $this)" "$folder/second" ||
  failed "a second supervise: exit code $code, and not 2 with the reason: $(cat "$folder/second")"
cmp "$run/hosts" "$folder/hosts.first" || failed "a second supervise has overwritten the hosts of the first"
comes_further "$(newest)"
power_off c
expect 30 "an attempt without c" said "^== attempt .*: 4 ranks on a \(2\), b \(1\), $this \(1\); exit code [0-9]+ before; no answer from c$"
comes_further "$(newest)"
power_on c
power_off b
expect 30 "an attempt with c, without b" said "^== attempt .*: 4 ranks on a \(2\), c \(1\), $this \(1\); .*; no answer from b$"
comes_further "$(newest)"

# The host of the first rank, whose daemon mpirun waits for without end.
freeze a
expect 40 "mpirun's end" said '^== mpirun has not ended within 15 s after its ranks: killing it$'
grep -q 'on a (.* has not responded for' "$run/train.log" || failed "the loss of the ranks of a was not reported"
comes_further "$(newest)"
kill -USR1 $supervisor
ended 75

# --- stopped, and started again; once more in the midst of it, rehearsed ----------------------------------------------
power_on b
stopped=$(newest)
consumed=$("$hetpipe" checkpoint info "$stopped" | sed -n 's/^ *samples *\([0-9]*\) consumed.*/\1/p')
epochs=$((consumed / samples + 2))
start 20 $epochs --rehearse-preemption 20
ended 0
said "^== attempt 2: 5 ranks .*; exit code 75 before$" || failed "the run was not resumed after the rehearsed preemption"
[[ $(newest) > $stopped ]] || failed "no checkpoint after $stopped"

# Every start took up the newest checkpoint as it was, and the last one trained on what was left.
resumed=0
while read -r file label consumed; do
  "$hetpipe" checkpoint info "$file" > "$folder/info"
  grep -qE "^ *label +$label \(" "$folder/info" && grep -qE "^ *samples +$consumed consumed" "$folder/info" ||
    failed "resumed after wave $label with $consumed samples, which is not what $file holds: $(cat "$folder/info")"
  resumed=$((resumed + 1))
  before=$consumed
done < <(sed -n 's/^resuming from \(.*\): after wave \([0-9]*\), \([0-9]*\) samples consumed;.*/\1 \2 \3/p' "$run/train.log")
[ $resumed -ge 5 ] || failed "resumed $resumed times, and not 5 times or more"
rest=$(sed -n 's/^throughput: .*; \([0-9]*\) samples in .*/\1/p' "$run/train.log" | tail -n 1)
[ $((before + rest)) -eq $((epochs * samples)) ] ||
  failed "$before samples before the last start and $rest after it are not the $((epochs * samples)) of $epochs epochs"
"$hetpipe" checkpoint info "$run" | grep -q "samples  *$((epochs * samples)) consumed" || failed "the last checkpoint is of another sample"

# --- no host left -------------------------------------------------------------------------------------------
for host in a b c; do power_off $host; done
grep -v "^$this" "$folder/hosts.txt" > "$folder/others.txt"
code=0
"$supervise" --hosts "$folder/others.txt" --agent "$folder/agent" -- "${train[@]}" > "$folder/said" 2>&1 || code=$?
[ $code -eq 3 ] && said '^no host is left; no answer from a b c' || failed "without hosts: exit code $code, and not 3 with the reason"
echo "resumed from checkpoints $resumed times, with exit code 0 at the end"
