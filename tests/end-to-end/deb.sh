#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deb.sh SOURCE_DIR [PACKAGE.deb]
# The package of `cpack --preset release` (made here where none is given) on a Debian 12 as small as debootstrap makes
# it, from the mirror that this machine's apt uses: apt installs it with what it depends on and recommends, the quick
# start trains with five ranks as a user, and nothing is left when it is removed.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
source=$(realpath "$1")
package=${2:-}
kind=deb
. "$source/tests/end-to-end/bare_root.sh"
in_folder_of_its_own
for program in debootstrap dpkg-shlibdeps; do
  type -P $program > /dev/null || skip "$program is not installed"
done
find_mirror

if [ -z "$package" ]; then
  cd "$source"
  { cmake --preset release && cmake --build --preset release -j "$(nproc)" &&
    cpack --preset release -B "$folder/package"; } > "$folder/made.log" 2>&1 ||
    { tail -n 40 "$folder/made.log"; fail "no package was made"; }
  package=$(echo "$folder"/package/*.deb)
fi
version=$(sed -n 's/^project(hetpipe VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
[ "${package##*/}" = "hetpipe_${version}_$(dpkg --print-architecture).deb" ] || fail "a package by another name: $package"
dpkg-deb --info "$package"
depends=$(dpkg-deb --field "$package" Depends)
[[ $depends == *openmpi-bin* && $depends == *libopenmpi3* ]] || fail "it does not depend on Open MPI: $depends"
[[ ! $depends =~ cuda|cudnn|cublas|nccl|nvidia ]] || fail "it depends on CUDA: $depends"

debian_12
cp "$package" "$root/tmp/"
apt() {
  inside 0 "" /usr/bin/env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" apt-get -qq -y "$@" > "$folder/apt.log" 2>&1 ||
    { tail -n 20 "$folder/apt.log"; fail "apt-get $* failed"; }
}
apt update
apt install "/tmp/${package##*/}"
inside 0 "" /bin/bash -c 'for program in mpirun hetpipe hetpipe-quickstart; do type -P $program; done' ||
  fail "programs are missing"
inside 1234 "" /usr/bin/hetpipe --version
mapfile -t modules < <(dpkg-deb --contents "$package" | grep -o '/[a-z/]*hetpipe_cuda.so')
if [ ${#modules[@]} -gt 0 ]; then
  inside 1234 "" /usr/bin/hetpipe --version | grep -q '^device cuda: no NVIDIA driver' || fail "${modules[*]} is not looked for"
fi

install -d -o 1234 -g 1234 "$root/home/user"
code=0
inside 1234 "" /bin/bash -c 'cd /home/user && exec hetpipe-quickstart --epochs 0.2' > "$folder/quickstart.txt" 2>&1 || code=$?
cat "$folder/quickstart.txt"
[ $code -eq 0 ] || fail "the quick start ended with exit code $code"
trained "$folder/quickstart.txt" 50

apt purge hetpipe
left=$(cd "$root" && find etc usr var/lib -path usr/share/datasets -prune -o -path var/lib/apt -prune -o -path var/lib/dpkg -prune -o -name '*hetpipe*' -print)
[ -z "$left" ] || fail "left when it was removed: $left"
echo "$kind: good"
