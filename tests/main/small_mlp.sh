# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that run a small training, of an mlp on 10x10 images of four classes, with their $folder and $hetpipe.

number() { printf '%b' "$(printf '\\x%02x' $(($1 >> 24)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)))"; }
images() { # SPLIT COUNT
  { number 2051; number "$2"; number 10; number 10; head -c $((100 * $2)) "$hetpipe"; } > "$folder/data/$1-images-idx3-ubyte"
  { number 2049; number "$2"; head -c "$2" < <(while :; do printf '\0\1\2\3'; done); } > "$folder/data/$1-labels-idx1-ubyte"
}

# Times made up, so that a minibatch takes some milliseconds.
cat > "$folder/profile.toml" << 'PROFILE'
format = 1
model = "mlp"
layer = [
  { name = "flatten", parameter_bytes = 0 },
  { name = "linear1", parameter_bytes = 103424 },
  { name = "relu1", parameter_bytes = 0 },
  { name = "linear2", parameter_bytes = 131584 },
  { name = "relu2", parameter_bytes = 0 },
  { name = "linear3", parameter_bytes = 2064 },
  { name = "loss", parameter_bytes = 0 },
]
[[measurement]]
device = "cpu"
batch = 8
forward = [0, 3e-3, 1e-3, 3e-3, 1e-3, 1e-3, 1e-3]
backward = [0, 6e-3, 2e-3, 6e-3, 2e-3, 2e-3, 2e-3]
output_bytes = [3200, 8192, 8192, 4096, 4096, 128, 32]
stash_bytes = [3200, 8192, 8192, 4096, 4096, 128, 160]
PROFILE
