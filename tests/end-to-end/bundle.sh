#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bundle.sh SOURCE_DIR bare|debian|ubuntu [BUNDLE.tar.xz]
# The bundle of launch/bundle (made here where none is given) in a root that has no MPI, HDF5, Boost or oneDNN:
#   bare    glibc, libstdc++, libgcc_s, bash and a few tools of this machine, and nothing else
#   debian  Debian 13, as small as debootstrap makes it, from the mirror that this machine's apt uses
#   ubuntu  Ubuntu 24.04 likewise, from debootstrap's own mirror for it
# There the quick start trains with five ranks: as root; then moved to a path with spaces, read-only, as another user.
# Nothing but glibc, libstdc++ and libgcc_s may be loaded from outside the bundle, neither by what ld.so says of each
# of its objects nor by what the processes of the first run loaded in fact, plug-ins included.
# Exit code 77: this machine cannot do it (the reason is printed).
set -euo pipefail
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
source=$(realpath "$1")
kind=$2
bundle=${3:-}

. "$source/tests/end-to-end/bare_root.sh"
in_folder_of_its_own

# --- the root -----------------------------------------------------------------------------------------
bare_root() {
  local program library
  mkdir -p "$root"/{usr/bin,usr/lib,usr/lib64,etc,tmp}
  for link in bin lib lib64; do ln -s usr/$link "$root/$link"; done
  for program in bash ldd cat cp id mkdir mv rm tee grep readlink seq sleep; do cp "$(type -P $program)" "$root/bin"; done
  ln -s bash "$root/bin/sh"
  mkdir -p "$root/usr/lib/$(uname -m)-linux-gnu"
  for library in $({ ldd "$root"/bin/* 2> /dev/null; ldd "$(type -P cmake)" | grep -E 'lib(stdc\+\+|gcc_s|m)\.so'
                     ls /lib/*-linux-gnu/lib{dl,pthread,rt,util,resolv,nss_files}.so.? | sed 's/^/=> /'; } |
                   grep -oE '/lib[^ ]*' | sort -u); do
    cp -L "$library" "$root$(realpath "$(dirname "$library")" | sed 's|^/lib|/usr/lib|')/"
  done
  printf 'root:x:0:0::/root:/bin/sh\n' > "$root/etc/passwd"
}
case $kind in
  bare) bare_root ;;
  debian)
    find_mirror
    debootstrapped "Debian 13" trixie "$root" "$mirror"
    ;;
  ubuntu)
    keyring=${UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
    [ -e "$keyring" ] || skip "no $keyring, to verify Ubuntu with (UBUNTU_KEYRING names another)"
    # Its script is that of every Ubuntu; older releases of debootstrap do not know this one's name.
    script=/usr/share/debootstrap/scripts/gutsy
    mirror=$(sed -n 's/^[[:space:]]*default_mirror \(.*archive\..*\)/\1/p' $script 2> /dev/null | head -n 1)
    [ -n "$mirror" ] || skip "debootstrap is not installed, or names no mirror of Ubuntu"
    debootstrapped "Ubuntu 24.04" --keyring="$keyring" noble "$root" "$mirror" gutsy
    ;;
  *) fail "usage: $0 SOURCE_DIR bare|debian|ubuntu [BUNDLE.tar.xz]" ;;
esac
mkdir -p "$root"/{proc,sys,dev,srv,opt}
chmod 1777 "$root/tmp"

if [ -z "$bundle" ]; then
  bundle=$folder/bundle.tar.xz
  "$source/launch/bundle" --output "$bundle"
fi
[ "$(stat -c %s "$bundle")" -le $((60 * 1048576)) ] || fail "$bundle is larger than 60 MiB"
tar -C "$root/opt" -xf "$bundle"
unpacked=$(cd "$root/opt" && echo hetpipe-*)
[ -d "$root/opt/$unpacked" ] || fail "the bundle is not one folder hetpipe-..."

inside 0 "" /bin/bash -c 'for program in mpirun orted ssh; do ! type -P $program; done' || fail "the root is not bare"

# --- what its objects ask for -----------------------------------------------------------------------------
of_the_system='(linux-vdso|ld-linux-x86-64|lib(c|m|dl|pthread|rt|resolv|util)|libstdc\+\+|libgcc_s)\.so'
of_cuda='lib(cuda|cudart|cudnn[a-z_]*|cublas|cublasLt|nccl|nvrtc[a-z-]*|nvJitLink|nvidia-[a-z]*)\.so'
mapfile -t objects < <(cd "$root" && grep -rlE -m 1 --binary-files=text $'^\x7fELF' "opt/$unpacked" | sed 's|^|/|')
[ ${#objects[@]} -ge 100 ] || fail "${#objects[@]} objects in the bundle: fewer than Open MPI alone has"
inside 0 "" /bin/bash -c 'for file; do echo "$file:"; LD_TRACE_LOADED_OBJECTS=1 /lib64/ld-linux-x86-64.so.2 "$file" || echo failed; done' bash \
  "${objects[@]}" > "$folder/lists" 2>&1
sed -i 's/ (0x[0-9a-f]*)$//' "$folder/lists"
grep -q "libmpi.so.40 => /opt/$unpacked/lib" "$folder/lists" || { cat "$folder/lists"; fail "nothing loads the bundle's MPI"; }
of_infiniband='lib(ibverbs|rdmacm|mlx5|nl-3|nl-route-3)\.so'
expected="^\s${of_the_system}[^ ]* =>|^\s${of_infiniband}[^ ]* => not found|=> /opt/$unpacked/(lib|libexec|tests|benchmarks)/|^\s${of_cuda}[^ ]* => not found"
strangers=$(grep -E '=>|failed|not found|error' "$folder/lists" | grep -vE "$expected" || true)
[ -z "$strangers" ] || fail "loaded from outside the bundle: $strangers"

# --- the container's definition: what it copies works by itself ------------------------------------------------
mkdir "$root/opt/hetpipe"
while read -r from to; do
  cp -fLr "$root/opt/$unpacked/$from" "$root$to" || fail "hetpipe.def copies $from, which the bundle does not have"
done < <(sed -n '/^%files$/,/^$/{ /^  /p }' "$root/opt/$unpacked/hetpipe.def")
inside 0 "" /opt/hetpipe/bin/hetpipe --version > "$folder/contained" || fail "hetpipe.def does not copy all that hetpipe needs"
grep -q '^device cpu: ' "$folder/contained" || fail "in a container: $(cat "$folder/contained")"
rm -r "$root/opt/hetpipe"

# --- the quick start ----------------------------------------------------------------------------------------
mkdir "$root/tmp/debug"
code=0
inside 0 "" /bin/bash -c '
  cd /srv
  LD_DEBUG=libs LD_DEBUG_OUTPUT=/tmp/debug/process exec "/opt/$1/bin/hetpipe-quickstart" --epochs 0.3
  ' bash "$unpacked" > "$folder/first.txt" 2>&1 || code=$?
[ $code -eq 0 ] || { cat "$folder/first.txt"; fail "$kind: exit code $code"; }
trained "$folder/first.txt" 60

# What bash and the tools load does not count: a process counts from where control goes to a program of the bundle.
loaded=$(awk -v ours="/opt/$unpacked/libexec/" '
  FNR == 1 { pending = ""; counts = 0 }
  /calling init: / { sub(/.*calling init: /, ""); if (counts) print; else pending = pending $0 "\n"; next }
  /transferring control: / { sub(/.*transferring control: /, ""); counts = index($0, ours) == 1 || index($0, "/opt/") == 1
                             if (counts) printf "%s", pending; pending = "" }' "$root"/tmp/debug/process.* | sort -u)
[ "$(grep -c "^/opt/$unpacked/lib/" <<< "$loaded")" -ge 60 ] || fail "only these were seen to be loaded: $loaded"
strangers=$(grep -vE "^/opt/$unpacked/|/$of_the_system" <<< "$loaded" || true)
[ -z "$strangers" ] || fail "loaded by processes from outside the bundle: $strangers"

# Moved, read-only, and by somebody else. The launch line has the path in it, quoted.
mkdir -p "$root/srv/het pipe's" "$root/srv/home"
mv "$root/opt/$unpacked" "$root/srv/het pipe's/moved"
chown 1234:1234 "$root/srv/home"
inside 1234 "/srv/het pipe's" /bin/bash -c 'cd /srv/home && exec "$1/bin/hetpipe-quickstart" --epochs 0.3' \
  bash "/srv/het pipe's/moved" > "$folder/second.txt" 2>&1 || code=$?
[ $code -eq 0 ] || { cat "$folder/second.txt"; fail "$kind, moved: exit code $code"; }
trained "$folder/second.txt" 60

# UCX, which Open MPI takes by itself where there is InfiniBand.
inside 1234 "/srv/het pipe's" /bin/bash -c '"$1/bin/mpirun" --oversubscribe -n 2 --mca pml ucx --mca osc ucx --mca opal_common_ucx_tls any \
  --mca opal_common_ucx_devices any -x UCX_TLS=tcp,self "$1/bin/hetpipe" probe --output /srv/home/probed.toml' \
  bash "/srv/het pipe's/moved" > "$folder/ucx.txt" 2>&1 || { cat "$folder/ucx.txt"; fail "$kind: UCX does not run"; }

# Exit codes come through wrappers and mpirun.
inside 1234 "" /bin/bash -c '"$1/bin/mpirun" --oversubscribe -n 2 "$1/bin/hetpipe" plan --clustr c.toml' \
  bash "/srv/het pipe's/moved" > "$folder/mistake.txt" 2>&1 || code=$?
[ $code -eq 2 ] && grep -q "unknown option '--clustr'" "$folder/mistake.txt" ||
  { cat "$folder/mistake.txt"; fail "$kind: exit code $code of a mistake, and not 2"; }
echo "$kind: good"
