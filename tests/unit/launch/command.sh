#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# command.sh HETPIPE GOLDEN [--update]: the command as people meet it. Help texts are compared with the
# files of GOLDEN (--update rewrites them); messages and exit codes with what is written here.
set -uo pipefail
hetpipe=$1
golden=$2
update=${3:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

fail() { echo "FAILED: $*"; failed=1; }

compare() { # NAME ARGUMENT...: standard output against GOLDEN/NAME.txt
  local name=$1; shift
  if ! "$hetpipe" "$@" > "$folder/out" 2> "$folder/err"; then fail "hetpipe $* ended with an error: $(cat "$folder/err")"; fi
  if [ "$update" = --update ]; then cp "$folder/out" "$golden/$name.txt"; fi
  diff -u "$golden/$name.txt" "$folder/out" || fail "hetpipe $* differs from $golden/$name.txt"
}
refused() { # TEXT ARGUMENT...: exit code 2, TEXT once on standard error, nothing on standard output
  local text=$1 code=0; shift
  "$hetpipe" "$@" > "$folder/out" 2> "$folder/err" || code=$?
  [ $code -eq 2 ] || fail "hetpipe $*: exit code $code, not 2"
  [ "$(grep -c -F -- "$text" "$folder/err")" -eq 1 ] || fail "hetpipe $*: not once '$text' but: $(cat "$folder/err")"
  [ ! -s "$folder/out" ] || fail "hetpipe $*: writes to standard output: $(cat "$folder/out")"
}

compare help --help
for subcommand in $("$hetpipe" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  compare "help-$subcommand" "$subcommand" --help
done
for action in $("$hetpipe" checkpoint --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  compare "help-checkpoint-$action" checkpoint "$action" --help
done
subcommands=$("$hetpipe" --help | grep -c '^  [a-z]')
actions=$("$hetpipe" checkpoint --help | grep -c '^  [a-z]')
[ "$(ls "$golden"/help-*.txt | wc -l)" -eq $((subcommands + actions)) ] ||
  fail "$golden has help of subcommands that there are not"

"$hetpipe" --version > "$folder/out" || fail "--version"
for pattern in '^hetpipe [0-9]*\.[0-9]*\.[0-9]* (build [0-9a-f]\{16\})$' '^compiler: ' '^device cpu: '; do
  grep -q "$pattern" "$folder/out" || fail "--version does not say $pattern: $(cat "$folder/out")"
done

refused "usage: hetpipe <subcommand>"
refused "unknown subcommand 'plann' (did you mean 'plan'?)" plann
refused "unknown option '--clustr' (did you mean '--cluster'?)" plan --clustr c.toml --profile p.toml
refused "--cluster: is missing" plan --clustr c.toml
refused "$folder/none.toml: cannot be read" plan --cluster "$folder/none.toml" --profile p.toml
refused "--model: is missing" profile --sample 28x28x1 --classes 10
refused "--data: is missing" profile --model lenet
refused "--sample: '28x28'" profile --model lenet --sample 28x28 --classes 10
refused "--classes: cannot stand beside --data" profile --model lenet --data d --classes 3
refused "there is no folder $folder/no" profile --model lenet --data d --output "$folder/no/p.toml"
refused "(is a folder)" plan --cluster c.toml --profile p.toml --output "$folder"
refused "usage: hetpipe checkpoint <action>" checkpoint
refused "unknown action 'verfy' (did you mean 'verify'?)" checkpoint verfy f
refused "FILE: is missing" checkpoint info
refused "unexpected argument 'c'" checkpoint diff a b c
refused "a.h5: does not exist" checkpoint info a.h5
refused "holds no complete checkpoint" checkpoint info "$folder"
refused "--output: $folder/a.pt" checkpoint export f --output "$folder/a.pt"
refused "there is no folder $folder/no" checkpoint export f --output "$folder/no/a.npz"
refused "(did you mean 'lenet'?)" profile --model lenett --sample 28x28x1 --classes 10

"$hetpipe" plan --cluster c.toml --profile p.toml --in-flight 4 --servers n0,n1 --print-config > "$folder/run.toml" ||
  fail "--print-config"
"$hetpipe" plan --config "$folder/run.toml" --print-config > "$folder/again.toml" || fail "--config of a printed one"
diff "$folder/run.toml" "$folder/again.toml" || fail "a printed configuration does not read back as the same"
grep -q '^in-flight = 4$' "$folder/run.toml" || fail "--print-config misses in-flight"

if [ -w /dev/full ]; then
  code=0
  "$hetpipe" --help > /dev/full 2> "$folder/err" || code=$?
  [ $code -eq 3 ] || fail "a full disk under standard output: exit code $code, not 3"
fi
exit $failed
