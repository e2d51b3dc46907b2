# SPDX-License-Identifier: Apache-2.0
# Sourced by tests/gpu/run and benchmarks/gpu, in a build tree and in a bundle: where things are, and steps with a time
# limit and a log each. They set `device`, `minutes` and `output`.

# locate SCRIPT PATH_IN_TREE PROGRAM: sets root, bundled, hetpipe, mpirun, data, profiles (which tests bring), tests and
# benchmarks (folders of programs); of a tree's builds the first that has PROGRAM.
locate() {
  local script=$1
  if [ -e "${script%/bin/*}/tests/list" ]; then
    bundled=yes
    root=${script%/bin/*}
    tests=$root/tests
    benchmarks=$root/benchmarks
    hetpipe=$root/bin/hetpipe
    mpirun=$root/bin/mpirun
    data=$root/data/fashion-mnist
    [ -d "$data" ] || data=fashion-mnist
  else
    bundled=no
    root=${script%/"$2"}
    for tests in "$root/build/release/bin" "$root/build/dev/bin"; do [ ! -x "$tests/$3" ] || break; done
    benchmarks=$tests
    hetpipe=$tests/hetpipe
    mpirun=mpirun
    data=fashion-mnist
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  profiles=$root/tests/profiles
}

# CUDA's libraries may be those of a Python environment.
find_cuda_libraries() { # PYTHON
  local folders
  folders=$("$1" -c 'import glob, os, sysconfig
print(":".join(glob.glob(os.path.join(sysconfig.get_paths()["purelib"], "nvidia", "*", "lib"))))' 2> /dev/null)
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/cuda/lib64${folders:+:$folders}
}

# The commit that the programs were built from.
commit_of_programs() {
  if [ "$bundled" = yes ]; then
    sed -n '1s/.*: commit \(.*\), built on .*/\1/p' "$root/MANIFEST"
  else
    echo "$(git -C "$root" rev-parse --short HEAD)$([ -z "$(git -C "$root" status --porcelain --untracked-files=no)" ] || echo ' with changes')"
  fi
}

passed=()
failed=()
skipped=()
started=$SECONDS
pace=1  # how much longer than its limit a step may take

seconds_left() { echo $((60 * minutes - (SECONDS - started))); }

# step NAME SECONDS COMMAND...: runs it in the output folder, within the time that is left. Exit code 77 means skipped, with
# the log's last line as the reason. Steps that the file $passed_before lists are not run again; those that pass are added.
step() {
  local name=$1 limit=$(($2 * pace)) code=0 left at=$SECONDS log=$output/${1//[^a-z0-9]/-}.log why
  shift 2
  if [ -n "${passed_before:-}" ] && grep -qsxF -- "$name" "$passed_before"; then
    passed+=("$name")
    printf '[before]  %s\n' "$name"
    return 0
  fi
  left=$(seconds_left)
  if [ "$left" -lt 10 ]; then skip "$name" "the $minutes minutes are over"; return 1; fi
  (cd "$output" && timeout -k 5 $((limit < left ? limit : left)) "$@") > "$log" 2>&1 < /dev/null || code=$?
  if [ "$left" -lt "$limit" ] && { [ $code -eq 124 ] || [ $code -eq 137 ]; }; then
    skip "$name" "the $minutes minutes ended in the middle of it"
    return 1
  fi
  # GoogleTest calls it a success when every test skips itself.
  if [ $code -eq 0 ] && grep -q '^\[  PASSED  \] 0 tests' "$log"; then
    code=77
    why=$(grep -m 1 -A 1 'Skipped$' "$log" | tail -n 1)
    echo "$why" >> "$log"
  fi
  case $code in
    0)
      passed+=("$name")
      [ -z "${passed_before:-}" ] || echo "$name" >> "$passed_before"
      printf '[ok]      %s (%d s)\n' "$name" $((SECONDS - at)) ;;
    77) skip "$name" "$(tail -n 1 "$log")"; return 1 ;;
    *)
      [ $code -ne 124 ] && [ $code -ne 137 ] || echo "ended after $limit s" >> "$log"
      failed+=("$name")
      printf '[FAILED]  %s (exit code %d, %d s): %s\n' "$name" $code $((SECONDS - at)) "$log"
      grep -E '^\[  FAILED|Failure$|[Ee]rror|========= ' "$log" | head -n 5 | sed 's/^/          /'
      tail -n 4 "$log" | sed 's/^/          /'
      return 1 ;;
  esac
}
skip() { skipped+=("$1 ($2)"); printf '[skipped] %s: %s\n' "$1" "$2"; }

# Lists what was done; returns 0 if at least one step passed and none failed.
say_what_was_covered() {
  echo
  echo "covered:"
  for what in "${passed[@]}"; do echo "  $what"; done
  [ ${#skipped[@]} -eq 0 ] || { echo "skipped:"; printf '  %s\n' "${skipped[@]}"; }
  [ ${#failed[@]} -eq 0 ] || { echo "failed:"; printf '  %s\n' "${failed[@]}"; }
  echo "${#passed[@]} passed, ${#failed[@]} failed, ${#skipped[@]} skipped in $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s; logs in $output"
  [ ${#failed[@]} -eq 0 ] && [ ${#passed[@]} -gt 0 ]
}
