#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doctor_blocked.sh HETPIPE: `hetpipe doctor` on three hosts of which two cannot reach each other: network namespaces
# behind a router, in which mpirun runs, and which drops what they send each other. The pair is named with its hosts,
# the others are measured, and all leave with exit code 3. Nor do they share the output directory. Exit code 77: this machine cannot do it (the reason is
# printed).
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin
hetpipe=$1
. "$(dirname "$0")/../main/patience.sh"
skip() { echo "skipped: $*"; exit 77; }
command -v ip > /dev/null || skip "ip is not installed (package iproute2)"

folder=$(mktemp -d)
net=hp$$  # namespaces: $net-router, $net-node1, ...
tear_down() {
  local name
  for name in router node1 node2 node3; do ip netns del "$net-$name" 2> /dev/null; done
  rm -rf "$folder"
}
trap tear_down EXIT
trap 'exit 143' INT TERM

# --- three hosts and a router --------------------------------------------------------------------------------------------
router="ip -n $net-router"
ip netns add "$net-router" 2> "$folder/why" || skip "no network namespaces here: $(cat "$folder/why")"
$router link set lo up
for k in 1 2 3; do
  node=$net-node$k
  { ip netns add "$node" && $router link add "v$k" type veth peer name eth0 netns "$node"; } 2> "$folder/why" ||
    skip "no virtual links here: $(cat "$folder/why")"
  $router address add 10.77.$k.1/24 dev "v$k"
  $router link set "v$k" up
  ip -n "$node" link set lo up
  ip -n "$node" address add 10.77.$k.2/24 dev eth0
  ip -n "$node" link set eth0 up
  ip -n "$node" route add default via 10.77.$k.1
done
ip netns exec "$net-router" sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
cat > "$folder/agent" << AGENT
#!/bin/bash
# HOST COMMAND...: as ssh would.
host=\$1
shift
# node3 has a folder of its own where the others have one together.
[ \$host != node3 ] || alone="mount -t tmpfs none $folder/out;"
exec ip netns exec $net-\$host unshare --uts --mount sh -c "hostname \$host; \$alone \$*"
AGENT
chmod +x "$folder/agent"
mkdir "$folder/out"

doctor() { # WORDS...: a rank on each host
  timeout -k 2 "$(patience 30)" ip netns exec "$net-router" \
    mpirun --host node1,node2,node3 --mca plm_rsh_agent "$folder/agent" --mca plm_rsh_no_tree_spawn 1 -n 3 \
    "$hetpipe" doctor "$@" > "$folder/said" 2> "$folder/err"
}
failed=0
expect() { # CODE IS TEXT...
  local code=$1 is=$2 text
  shift 2
  for text in "$@"; do
    [ "$(grep -c -F -- "$text" "$folder/said")" -eq 1 ] || is="no '$text'"
  done
  [ "$is" = "$code" ] || { echo "FAILED: $is (expected code $code): $(cat "$folder/said" "$folder/err")"; failed=1; }
}

code=0
doctor || code=$?
expect 0 $code "3 of 3 pairs answer" "3 ranks on 3 hosts"

block() { # add|del A B: silence from host A to host B
  $router rule "$1" from 10.77.$2.2 to 10.77.$3.2 blackhole
}
block add 2 3
block add 3 2
code=0
doctor --timeout 5 --output "$folder/out/run" || code=$?
expect 3 $code "failure: rank 1 on node2 <-> rank 2 on node3: no answer within 5 s" "2 of 3 pairs answer" \
  "failure: --output $folder/out/run: is not the same folder for rank 2 on node3"
[ "$(grep -c '^failure: ' "$folder/said")" -eq 2 ] || { echo "FAILED: not two failures: $(cat "$folder/said")"; failed=1; }
[ -z "$(ls -A "$folder/out")" ] || { echo "FAILED: left behind: $(ls -A "$folder/out")"; failed=1; }

# The third host reaches nobody, rank 0 neither: who it is, is known all the same.
block add 1 3
code=0
doctor --timeout 5 || code=$?
expect 3 $code "failure: rank 0 on node1 <-> rank 2 on node3: no answer within 5 s" \
  "failure: rank 1 on node2 <-> rank 2 on node3: no answer within 5 s" "1 of 3 pairs answer"

# Where a host knows no way at all, Open MPI would end the rank that sends.
block del 1 3
block del 2 3
block del 3 2
ip -n "$net-node2" route add unreachable 10.77.3.2
code=0
doctor --timeout 5 || code=$?
expect 3 $code "failure: rank 1 on node2 <-> rank 2 on node3: no route (10.77.3.2: No route to host)" "2 of 3 pairs answer"
exit $failed
