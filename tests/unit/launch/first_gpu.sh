#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# first_gpu.sh SOURCES: launch/first-gpu in a bundle of stand-ins: it refuses to go on where there is no GPU, and its verdict
# names each failure's card, library and remedy, in at most ten lines.
set -euo pipefail
sources=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/bundle
mkdir -p "$bundle"/{bin,tests,launch}
touch "$bundle/tests/list"
echo "hetpipe 0.1: commit abc123, built on Debian" > "$bundle/MANIFEST"
cp "$sources/launch/gpu_steps.sh" "$bundle/launch"
cp "$sources/launch/first-gpu" "$bundle/bin/hetpipe-first-gpu"

stand_in() { printf '#!/bin/bash\n%s\n' "$2" > "$work/new"; chmod +x "$work/new"; mv "$work/new" "$1"; }
stand_in "$bundle/bin/nvidia-smi" 'case $* in *=name\ *) echo "NVIDIA GeForce RTX 2060" ;; *=driver_version\ *) echo 580.1 ;; esac'
export PATH=$bundle/bin:$PATH

first_gpu() { # EXIT_CODE OPTION...
  local wanted=$1 code=0
  shift
  (cd "$work" && "$bundle/bin/hetpipe-first-gpu" "$@") > "$work/out" 2>&1 || code=$?
  [ $code -eq "$wanted" ] || { cat "$work/out"; echo "first-gpu $*: exit code $code, not $wanted"; exit 1; }
}
expect() { # FILE WORDS
  grep -qF -- "$2" "$1" || { cat "$1"; echo "$1 does not say \"$2\""; exit 1; }
}

stand_in "$bundle/bin/hetpipe-gpu-tests" 'exit 9'
stand_in "$bundle/bin/hetpipe-gpu-benchmarks" 'exit 9'
stand_in "$bundle/bin/hetpipe" 'echo "device cuda: no NVIDIA driver: libcuda.so.1: cannot open shared object file"'
first_gpu 77
expect "$work/out" "no NVIDIA driver"
expect "$work/out" "Try: install NVIDIA's driver"
[ ! -e "$work/first-gpu" ] || { echo "a folder although there was no GPU"; exit 1; }
stand_in "$bundle/bin/hetpipe" 'echo "device cuda: left out: TITAN X has compute capability 5.2, and this build has code for 7.5"'
first_gpu 77
expect "$work/out" "Try: a build with code for this card, or the libraries for it"
first_gpu 2 --minutes soon
expect "$work/out" "--minutes soon: is no number of minutes"

stand_in "$bundle/bin/hetpipe" 'echo "device cuda: CUDA 13.0, cuDNN 9.19.0; 1 GPUs"'
stand_in "$bundle/bin/hetpipe-gpu-benchmarks" 'mkdir -p "$4/rows"; echo row > "$4/rows/kernels"; echo "| kernels |" > "$4/2026-gpu.md"'
passes='echo "[ok]      compute-sanitizer memcheck (9 s)"; echo "3 passed, 0 failed, 0 skipped in 1 min 2 s; logs in x"'
stand_in "$bundle/bin/hetpipe-gpu-tests" "$passes"
first_gpu 0
expect "$work/first-gpu/verdict.txt" "verdict: nothing failed"
expect "$work/first-gpu/verdict.txt" "card: 1 x NVIDIA GeForce RTX 2060"
expect "$work/first-gpu/verdict.txt" "driver: 580.1; CUDA 13.0, cuDNN 9.19.0; 1 GPUs"
expect "$work/first-gpu/verdict.txt" "build: commit abc123"
expect "$work/first-gpu/verdict.txt" "tests: 3 passed, 0 failed"
expect "$work/first-gpu/verdict.txt" "sanitizer: [ok]      compute-sanitizer memcheck"
tar -tzf "$work/first-gpu.tar.gz" > "$work/archive"
for file in verdict machine failures; do expect "$work/archive" "./$file.txt"; done
expect "$work/archive" "./benchmarks/2026-gpu.md"

# Without PyTorch the rows that compare with it are skipped, which is no failure; the rest is measured.
cp -r "$sources/benchmarks" "$bundle/benchmarks"
cp "$sources/benchmarks/gpu" "$bundle/bin/gpu-benchmarks-themselves"
stand_in "$bundle/bin/python-without-torch" 'exit 1'
stand_in "$bundle/benchmarks/bench_gpu_step" 'echo "a step was measured without PyTorch"'
stand_in "$bundle/benchmarks/bench_gpu_kernels" 'echo "| copy | 90 % |"; echo "{}" > "$1"'
stand_in "$bundle/bin/hetpipe-gpu-benchmarks" \
  "TORCH_PYTHON=$bundle/bin/python-without-torch exec \"$bundle/bin/gpu-benchmarks-themselves\" \"\$@\" 'kernels-bf16' 'step-resnet-50-*' 'profile-gpt2-*'"
rm -rf "$work/first-gpu"
first_gpu 0
expect "$work/first-gpu/verdict.txt" "verdict: nothing failed"
expect "$work/first-gpu/verdict.txt" "benchmarks: exit code 3, 1 rows in benchmarks/*-gpu.md; 3 skipped: no PyTorch at $bundle/bin/python-without-torch"

# Benchmarks that end in another way than by a row that is missing have failed.
stand_in "$bundle/bin/hetpipe-gpu-benchmarks" 'echo "[skipped] step-gpt2-bf16: no PyTorch"; exit 1'
first_gpu 3
expect "$work/first-gpu/verdict.txt" "verdict: something failed"

# As tests/gpu/run says it, with the log that it names.
fails() { # NAME TEXT
  printf 'mkdir -p "$5"; echo "%s" > "$5/%s.log"; echo "[FAILED]  %s (exit code 1, 3 s): $5/%s.log"; ' "$2" "$1" "$1" "$1"
}
stand_in "$bundle/bin/hetpipe-gpu-tests" "$(fails plans 'cuDNN: no plan for attention')echo '0 passed, 1 failed, 0 skipped'; exit 3"
first_gpu 3
expect "$work/first-gpu/verdict.txt" "verdict: something failed"
expect "$work/first-gpu/verdict.txt" "FAILED on 1 x NVIDIA GeForce RTX 2060, cuDNN:  plans"
expect "$work/first-gpu/verdict.txt" "Try: another cuDNN 9 in LD_LIBRARY_PATH"
stand_in "$bundle/bin/hetpipe-gpu-tests" "$(fails a 'NCCL: unhandled error')$(fails b 'CUDA: out of memory')$(fails c 'CUDA: an illegal memory access')$(fails d 'ended after 90 s')exit 3"
first_gpu 3
expect "$work/first-gpu/verdict.txt" "and 3 more failures: failures.txt"
expect "$work/first-gpu/failures.txt" "NCCL:  a"
expect "$work/first-gpu/failures.txt" "Try: --transport-path ipc or staged"
expect "$work/first-gpu/failures.txt" "Try: nvidia-smi: who else uses the card?"
expect "$work/first-gpu/failures.txt" "Try: a fault of hetpipe's"
expect "$work/first-gpu/failures.txt" "Try: more --minutes"
lines=$(wc -l < "$work/first-gpu/verdict.txt")
[ "$lines" -le 10 ] || { cat "$work/first-gpu/verdict.txt"; echo "a verdict of $lines lines"; exit 1; }

# A test program that ends without a word of a failure is one.
stand_in "$bundle/bin/hetpipe-gpu-tests" 'exit 3'
first_gpu 3
echo "first-gpu: refusals, verdicts and archives are as promised"
