# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that wait; the same as patience.h.

# patience SECONDS: after how many to give up what takes a usual machine so long: HETPIPE_TEST_PACE (10) times that.
patience() { echo $(($1 * ${HETPIPE_TEST_PACE:-10})); }

# within SECONDS WHAT COMMAND...: polls until COMMAND succeeds; 1 and a line that says so: it did not, within patience SECONDS.
within() {
  local limit end what=$2
  limit=$(patience "$1")
  end=$((SECONDS + limit))
  shift 2
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { echo "timed out after $limit s: no $what" >&2; return 1; }
    sleep 0.05
  done
}
