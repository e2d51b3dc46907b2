# SPDX-License-Identifier: Apache-2.0
# Sourced by benchmarks/run and benchmarks/gpu: data sets of noise, in the IDX format.

big_endian() { printf "$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24)) $((($1 >> 16) & 255)) $((($1 >> 8) & 255)) $(($1 & 255)))"; }
make_split() { # FOLDER NAME SAMPLES SIDE: square pictures, two classes
  { big_endian 2051; big_endian "$3"; big_endian "$4"; big_endian "$4"; head -c $(($3 * $4 * $4)) /dev/urandom; } > "$1/$2-images-idx3-ubyte"
  { big_endian 2049; big_endian "$3"; head -c "$3" /dev/urandom | LC_ALL=C tr '\000-\377' '[\000*128][\001*128]'; } > "$1/$2-labels-idx1-ubyte"
}
make_pictures() { # FOLDER SAMPLES SIDE: to train on, and 128 to evaluate
  mkdir -p "$1" && make_split "$1" train "$2" "$3" && make_split "$1" t10k 128 "$3"
}
