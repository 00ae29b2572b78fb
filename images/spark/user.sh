# Sourced by the programs of the Spark image: gives a user name to an ID that has none.
#
# A cluster such as OpenShift assigns user IDs. Without an entry in /etc/passwd, Java has no home folder and Hadoop no user, so
# that Spark does not start; the root file system is read-only, so the entry is in a file of its own (see nss_wrapper(1)).
if ! getent passwd "$(id -u)" >/dev/null; then
  export NSS_WRAPPER_PASSWD=/tmp/.gapless-passwd NSS_WRAPPER_GROUP=/etc/group LD_PRELOAD=libnss_wrapper.so
  echo "gapless:x:$(id -u):$(id -g)::/tmp:/usr/sbin/nologin" >"$NSS_WRAPPER_PASSWD"
fi
