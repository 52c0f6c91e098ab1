#!/bin/sh
# Launch agent of mpirun: starts OpenMPI's daemon in the network namespace of a server.
host=$1
shift
exec nsenter --net="/run/netns/$host" -- unshare --uts -- \
    sh -c "echo $host > /proc/sys/kernel/hostname; exec $*"
