# SPDX-License-Identifier: Apache-2.0
# Sourced by the programs in a bundle's bin/, which set `root`: tells Open MPI, PMIx and hwloc where their parts are, as
# the path they were built with (/usr) is wrong here. Values left in these variables by another Open MPI are replaced.
case $root in
  *:*) echo "$root: a bundle cannot be run from a path with a colon (it separates paths in lists). Move it." >&2; exit 2 ;;
esac
export OPAL_PREFIX=$root OPAL_EXEC_PREFIX=$root OPAL_BINDIR=$root/bin OPAL_LIBDIR=$root/lib
export OPAL_PKGLIBDIR=$root/lib/openmpi OPAL_DATADIR=$root/share OPAL_PKGDATADIR=$root/share/openmpi
export OPAL_SYSCONFDIR=$root/etc/openmpi
export PMIX_PREFIX=$root PMIX_EXEC_PREFIX=$root PMIX_LIBDIR=$root/lib PMIX_PKGLIBDIR=$root/lib/pmix
export PMIX_DATADIR=$root/share PMIX_PKGDATADIR=$root/share/pmix PMIX_SYSCONFDIR=$root/etc/pmix
# None: those that this machine may have belong to another hwloc.
export HWLOC_PLUGINS_PATH=$root/lib/hwloc
# Ranks on this host alone need neither ssh nor rsh, but Open MPI does not start without, unless this says so.
if [ -z "${OMPI_MCA_plm:-}${OMPI_MCA_plm_rsh_agent:-}" ] && ! type -P ssh > /dev/null && ! type -P rsh > /dev/null &&
  { [ -z "${SLURM_JOB_ID:-}" ] || ! type -P srun > /dev/null; }; then
  export OMPI_MCA_plm=isolated
fi
