#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# data_commands.sh HETPIPE SOURCE: every command of docs/data.md, taken from the document as it stands, on small data under the
# names that it uses: images of noise, and records of CIFAR's format.
set -uo pipefail
hetpipe=$1
source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export PATH=$(dirname "$hetpipe"):$PATH HETPIPE_CACHE=$folder/cache
failed=0
fail() { echo "FAILED: $*"; failed=1; }
bytes() { head -c "$1" /dev/urandom; }
word() { printf "\\x$(printf %02x $(($1 >> 24 & 255)))\\x$(printf %02x $(($1 >> 16 & 255)))\\x$(printf %02x $(($1 >> 8 & 255)))\\x$(printf %02x $(($1 & 255)))"; }

# IDX files of noise, whose sheets are PNG files: a few for each class of flowers/, of two sizes.
mkdir idx
for split in train t10k; do
  { word 2051; word 40; word 60; word 52; bytes $((40 * 60 * 52)); } > idx/$split-images-idx3-ubyte
  { word 2049; word 40; printf '\x00\x01%.0s' {1..20}; } > idx/$split-labels-idx1-ubyte
done
for split in train test; do
  for class in daisy rose; do
    mkdir -p flowers/$split/$class
    for n in 1 2 3 4; do
      hetpipe data show --data idx --seed "$n$RANDOM" --count $((n % 2 + 1)) --output flowers/$split/$class/000$n.png > out 2>&1 ||
        fail "stand-in images: $(cat out)"
    done
  done
done
mkdir cifar-10-batches-bin cifar-100-binary
for n in 1 2 3 4 5; do { printf "\\x0$n"; bytes 3072; printf '\x09'; bytes 3072; } > cifar-10-batches-bin/data_batch_$n.bin; done
{ printf '\x03'; bytes 3072; } > cifar-10-batches-bin/test_batch.bin
for split in train test; do { printf '\x13\x63'; bytes 3072; printf '\x00\x01'; bytes 3072; } > cifar-100-binary/$split.bin; done

# Blocks marked as sh, continued lines joined.
awk '/^```/ { inside = $0 == "```sh"; next } inside' "$source/docs/data.md" | sed -e ':a' -e '/\\$/ { N; s/\\\n *//; ba' -e '}' > commands
awk '/^```/ { open = !open; sh = $0 == "```sh"; next } open && !sh && /hetpipe / { print "not marked as sh: " $0 }' \
  "$source/docs/data.md" > unmarked
[ -s unmarked ] && fail "$(cat unmarked)"
[ "$(grep -c '^hetpipe ' commands)" -ge 7 ] || fail "docs/data.md has $(grep -c . commands) commands"
while read -r -u 3 command; do
  limit=(); [[ $command == *"data speed"* ]] && limit=(--seconds 0.2)
  eval "$(sed 's/ #.*//' <<< "$command") ${limit[*]}" > out 2> err || fail "$command: ended with $?: $(tail -n 5 err)"
  case $command in
    *"data speed"*) grep -q "samples/s with" out || fail "$command prints $(cat out)" ;;
    *"hetpipe train"*) grep -q "^test accuracy" out || fail "$command prints no accuracy: $(tail -n 5 out)" ;;
    *"data show"*) grep -q "pixels, labels" out || fail "$command prints $(cat out)" ;;
  esac
done 3< <(grep . commands)
for file in sheet.png mixed.png cifar10.h5 cifar100.h5 flowers.h5 runs/flowers/config.toml; do
  [ -s "$file" ] || fail "$file was not written"
done

# The run's transforms bring an image of any size to the model's, and its checkpoint names the classes, without its data.
mv flowers elsewhere
hetpipe predict runs/flowers elsewhere/test/rose/0001.png elsewhere/test/daisy/0002.png > out 2> err || fail "predict: $(cat err)"
[ "$(grep -cE '"class":0,"name":"daisy"|"class":1,"name":"rose"' out)" -eq 2 ] || fail "predict prints $(cat out)"

# Mixed samples are images with a class each, of which none weighs more, and training's.
refused() { # TEXT COMMAND...
  local text=$1 code=0; shift
  "$@" > out 2> err || code=$?
  [ $code -eq 2 ] || fail "$*: exit code $code, not 2"
  grep -q -F -- "$text" err || fail "$*: not '$text' but: $(cat err)"
}
mixing=(hetpipe train --cluster ranks --output no --mixup-alpha 0.2)
refused "--mixup-alpha: mixes images that have a class each" "${mixing[@]}" --model gpt2-tiny --data "text:$source/README.md"
refused "(--class-weights says otherwise)" "${mixing[@]}" --model lenet --data idx --class-weights 1,2
refused "--mixup-alpha: '-1'" "${mixing[@]}" --model lenet --data idx --mixup-alpha -1
refused "--cutmix-alpha: is for training samples" hetpipe data show --data idx --split test --cutmix-alpha 1 --output no.png
exit $failed
