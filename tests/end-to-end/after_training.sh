#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# after_training.sh HETPIPE SOURCE: what is done with a trained model, through the command: evaluate (alone and under
# mpirun), predict, generate, and a training that starts from its weights. Exit code 77: this machine cannot do it.
set -uo pipefail
hetpipe=$1
source=$2
. "$(dirname "$0")/fashion_scratch.sh"
cd "$folder" || exit 1
failed=0
fail() { echo "FAILED: $*"; failed=1; }
run() { "$@" > out 2> err || fail "$* ended with $?: $(tail -n 5 err)"; }
refused() { # TEXT COMMAND...
  local text=$1 code=0; shift
  "$@" > out 2> err || code=$?
  [ $code -eq 2 ] || fail "$*: exit code $code, not 2"
  grep -q -F -- "$text" err || fail "$*: not '$text' but: $(cat err)"
}
plan() { # FILE MODEL OPTIMIZER MINIBATCH LAYERS CUT
  printf '%s\n' 'format = 1' 'system = "hetpipe"' "model = \"$2\"" "minibatch = $4" 'in_flight = 2' "optimizer = \"$3\"" \
    '[[virtual_worker]]' '[[virtual_worker.stage]]' "layers = [0, $6]" 'devices = ["n0:0"]' \
    '[[virtual_worker.stage]]' "layers = [$6, $5]" 'devices = ["n0:1"]' '[parameter_server]' 'nodes = ["n0"]' > "$1"
}
train() { run "$hetpipe" train --transport threads --device cpu --trace off --log-every 1000 "$@"; }
value() { sed -n "s/.*\"$1\": \([-0-9.e]*\),*$/\1/p" "$2" | head -n 1; } # NAME FILE

# What the training printed of its last weights is what evaluate says of its checkpoint, in batches of the same size: on some
# processors a product's sums depend on how many samples it has.
plan plan.toml lenet-bn sgd-momentum 50 15 5
train --plan plan.toml --data fashion-mnist --epochs 0.05 --output run
"$hetpipe" evaluate run --minibatch 50 --json > one.json 2> err || fail "evaluate: $(cat err)"
[ -n "$(value loss one.json)" ] && [ "$(value loss one.json)" = "$(value test_loss run/result.json)" ] ||
  fail "loss $(value loss one.json), and $(value test_loss run/result.json) in training"
[ "$(value accuracy one.json)" = "$(value test_accuracy run/result.json)" ] || fail "the accuracy is another one"
grep -q '"split": "test"' one.json || fail "evaluate says nothing of the split"
run "$hetpipe" evaluate run --confusion
grep -q "^top-5 accuracy" out && grep -q "^Predictions (columns)" out || fail "evaluate prints $(cat out)"

# On any number of ranks the same, to the last digit.
for ranks in 2 3; do
  mpirun --oversubscribe -n $ranks "$hetpipe" evaluate run --minibatch 50 --json > many.json 2> err || fail "evaluate on $ranks ranks: $(cat err)"
  cmp one.json many.json || fail "evaluate on $ranks ranks says something else"
done
refused "nonsense: does not exist" mpirun --oversubscribe -n 2 "$hetpipe" evaluate run --data nonsense
checkpoint=$(ls run/checkpoints/*.h5 | tail -n 1)
cp "$checkpoint" alone.h5
refused "lies in no run directory" "$hetpipe" evaluate alone.h5
refused "this model takes images" "$hetpipe" evaluate alone.h5 --data "text:$source/README.md"
refused "--model says 'mlp'" "$hetpipe" evaluate alone.h5 --model mlp --data fashion-mnist

# A line for each sample, of which as many are right as evaluate says.
run "$hetpipe" predict alone.h5 --data fashion-mnist --top 3
[ "$(wc -l < out)" -eq 10000 ] || fail "predict prints $(wc -l < out) lines"
right=$(sed -n 's/.*"label":\([0-9]*\),"class":\([0-9]*\),.*/\1 \2/p' out | awk '$1 == $2' | wc -l)
[ "$right" -eq "$(value correct one.json)" ] || fail "$right of predict's lines are right, $(value correct one.json) are"
head -n 1 out | grep -q '"probability":0\.[0-9]*,"top":\[{"class":[0-9]*,"probability":[0-9.e-]*},{' || fail "predict: $(head -n 1 out)"
echo text > text.png
refused "text.png: is neither JPEG nor PNG" "$hetpipe" predict alone.h5 text.png

# Samples as the network sees them, of which the sheet is an image itself; and how fast they are made.
looks=(--data fashion-mnist --train-transforms "RandomCrop(28, padding=2), RandomHorizontalFlip")
run "$hetpipe" data show "${looks[@]}" --count 9 --output sheet.png
grep -q "^sheet.png: 9 of 60000 samples, 28 x 28 pixels, labels" out || fail "data show prints $(cat out)"
refused "sheet.png: is of 88 x 88 pixels" "$hetpipe" predict alone.h5 sheet.png
run "$hetpipe" predict alone.h5 sheet.png --test-transforms "Resize(28)"
run "$hetpipe" data speed "${looks[@]}" --data-threads 2 --seconds 0.1
grep -q "samples/s with 2 threads" out || fail "data speed prints $(cat out)"
refused "RandomCorp" "$hetpipe" data show --data fashion-mnist --train-transforms "RandomCorp(28)" --output other.png

# To PyTorch's names and back: the same weights. A training that starts from them leaves what is frozen as it is.
run "$hetpipe" checkpoint export alone.h5 --output weights.safetensors
run "$hetpipe" checkpoint import weights.safetensors --model lenet-bn --sample 28x28x1 --classes 10 --output again.h5
run "$hetpipe" evaluate again.h5 --data fashion-mnist --minibatch 50 --json
[ "$(value loss out)" = "$(value loss one.json)" ] || fail "after export and import the loss is $(value loss out)"
refused "--classes: is missing" "$hetpipe" checkpoint import weights.safetensors --model lenet-bn --sample 28x28x1 --output no.h5
train --plan plan.toml --data fashion-mnist --epochs 0.01 --init weights.safetensors --freeze 'conv1,linear*' --output frozen
cp frozen/checkpoints/*.h5 frozen.h5
"$hetpipe" checkpoint diff alone.h5 frozen.h5 > out 2> err
for tensor in conv1/weight linear1/weight linear2/weight linear2/bias; do
  grep -q "model/$tensor" out && fail "$tensor changed although it was frozen"
done
grep -q "model/conv2/weight" out || fail "nothing changed in training: $(cat out)"
refused "'conv7' matches no layer" "$hetpipe" train --plan plan.toml --data fashion-mnist --transport threads --freeze conv7
refused "none.safetensors: cannot be read" "$hetpipe" train --plan plan.toml --data fashion-mnist --transport threads --init none.safetensors

# Text: what is generated follows from the seed, and every character is one of the text's.
cat "$source"/docs/wsp.md "$source"/docs/training.md > text.txt
plan text.toml gpt2-tiny adam 16 45 20
train --plan text.toml --data text:text.txt,T=32 --epochs 0.3 --learning-rate 0.003 --output said
run "$hetpipe" evaluate said
grep -q "^bits per character" out || fail "evaluate of text prints $(cat out)"
cp said/checkpoints/*.h5 said.h5
rm -r said/config.toml text.txt
generate() { run "$hetpipe" generate said.h5 --prompt "The weights " --tokens 50 "$@"; }
generate --seed 4
cp out first
[ "$(wc -c < first)" -eq 63 ] || fail "generate prints $(wc -c < first) bytes"
grep -q "^The weights " first || fail "generate prints $(cat first)"
generate --seed 4
cmp first out || fail "the same seed gives another text"
generate --seed 5
cmp -s first out && fail "another seed gives the same text"
generate --greedy
cp out greedy
generate --top-k 1 --seed 9
cmp greedy out || fail "the most probable of one is not the greedy choice"
refused "computes in one process" mpirun --oversubscribe -n 2 "$hetpipe" generate said.h5 --prompt T
[ "$(grep -c "computes in one process" err)" -eq 1 ] || fail "ranks say the same: $(cat err)"
generate --json --top-p 0.5
grep -q '"prompt": "The weights "' out || fail "generate --json prints $(cat out)"
refused "--prompt: holds byte 0x7f" "$hetpipe" generate said.h5 --prompt $'\x7f'
refused "--top-k: has no effect with --greedy" "$hetpipe" generate said.h5 --prompt T --greedy --top-k 2
refused "is no text by the character" "$hetpipe" generate run --prompt T
refused "images do not suit this model" "$hetpipe" predict said.h5 text.png
exit $failed
