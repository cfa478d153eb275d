#!/bin/sh
# A Debian tree in a folder, and commands run inside it, for hosts whose own Emscripten is too old.
#
#   debian-tree.sh make TREE SUITE PACKAGES [MIRROR]   makes the tree unless it is whole (about a minute, 3 GB)
#   debian-tree.sh run TREE ROOT COMMAND...            runs COMMAND in the tree, in the current folder
#
# ROOT is a host folder that the command sees at the same path (the repository); the current folder lies in it.
# Both need root, for chroot and mount. Mounts are made in a mount namespace of their own, so they are gone
# when the command ends, however it ends, and runs do not disturb each other.
set -eu

fail() { echo "debian-tree.sh: $1" >&2; exit 1; }

make_tree() {
    tree=$1 suite=$2 packages=$3 mirror=${4:-}
    mkdir -p "$(dirname "$tree")"
    # One maker at a time: the second waits, then finds the tree whole.
    exec 9>"$tree.lock"
    flock 9
    [ -e "$tree" ] && return 0
    # The tree gets its name only when it is whole and works. What an interrupted run left is thrown away; its
    # mounts went with its namespace, so nothing but the tree's own files can be removed here.
    part=$tree.part
    rm -rf --one-file-system "$part"
    # Without MIRROR, debootstrap falls back to its own default. The signature must be good either way.
    # shellcheck disable=SC2086
    unshare --mount debootstrap --force-check-gpg --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
        --variant=minbase --include="$packages" "$suite" "$part" $mirror >"$tree.log" 2>&1 ||
        fail "debootstrap of $suite failed: $(tail -n 1 "$tree.log") (whole log: $tree.log)"
    rm -rf "$part"/var/cache/apt/* "$part"/var/lib/apt/lists/*
    mkdir -m 777 "$part/var/cache/ccache"
    # Newer suites build system libraries when first linked, as whoever runs emcc.
    [ ! -d "$part/var/cache/emscripten" ] || chmod -R a+rwX "$part/var/cache/emscripten"
    mv "$part" "$tree"
}

run_in_tree() {
    tree=$1 root=$2
    shift 2
    case $root in / | /usr | /bin | /lib | /etc) fail "the repository cannot lie at $root" ;; esac
    here=$(pwd -P)
    # Under sudo the command runs as the caller, so that what it builds belongs to the caller.
    user=${SUDO_UID:-0}:${SUDO_GID:-0}
    export tree root here user
    # shellcheck disable=SC2016
    exec unshare --mount sh -euc '
        mount --rbind /dev "$tree/dev"
        mount -t proc proc "$tree/proc"
        mount -t tmpfs -o mode=1777 tmp "$tree/tmp"
        mkdir -p "$tree$root"
        mount --rbind "$root" "$tree$root"
        wrapper=
        [ ! -x "$tree/usr/bin/ccache" ] || wrapper=/usr/bin/ccache
        # ccache lets clones and worktrees share objects: paths under the repository are taken as relative to it.
        exec chroot --userspec="$user" "$tree" env -i -C "$here" \
            PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 HOME=/tmp TERM="${TERM:-dumb}" EM_COMPILER_WRAPPER=$wrapper \
            CCACHE_DIR=/var/cache/ccache CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1 "$@"' sh "$@"
}

[ $# -ge 3 ] || fail "usage: make TREE SUITE PACKAGES [MIRROR] | run TREE ROOT COMMAND..."
action=$1
shift
case $action in
    make) make_tree "$@" ;;
    run) run_in_tree "$@" ;;
    *) fail "unknown action $action" ;;
esac
