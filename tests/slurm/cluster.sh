# A private Slurm of virtual nodes on this machine, for tests; sourced.
# SPDX-License-Identifier: Apache-2.0
#
# cluster_start DIRECTORY [NODES]   starts munged, slurmctld and a slurmd for each node
#                                   (n1, n2, ...) and exports what the clients need.
#                                   Leaves the script with 77, which CTest counts as
#                                   skipped, where Slurm is missing or does not start.
# cluster_stop                      ends the daemons and what they started.
# cluster_options, cluster_partitions   lines for slurm.conf, before and after its nodes.
# Nothing outside of DIRECTORY is touched.

declare -A slurmd_pid=()

cluster_skip() {
  echo "skipped: $1"
  exit 77
}

# Ports that nobody listens on: $1 of them in a row, below those that the kernel gives out.
free_ports() {
  local base used port
  used=$(awk 'NR > 1 { split($2, a, ":"); print a[2] }' /proc/net/tcp | sort -u)
  for base in $(shuf -i 12000-31000 -n 200); do
    for ((port = base; port < base + $1; ++port)); do
      grep -qi "^$(printf %04X "$port")$" <<<"$used" && continue 2
    done
    echo "$base"
    return
  done
}

# TmpFS must differ between the nodes of one machine: PMIx makes its folders there.
# Credentials that end after 5 s and a scheduler that looks every second let a requeued job
# start at once; by default it waits for two minutes.
# Job numbers of clusters that run at the same time must differ: job scripts name a file after
# theirs in the folder that they were submitted in.
first_job=$(($$ % 60000 * 100 + 1))

write_slurm_conf() {
  local nodes=$1 port=$2 host
  host=$(hostname -s)
  cat >"$cluster/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$cluster/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool-%n
TmpFS=$cluster/tmp-%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd-%n.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=pmix
ReturnToService=2
JobRequeue=1
FirstJobId=$first_job
KillWait=5
SlurmdTimeout=20
MinJobAge=300
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=100000,batch_sched_delay=1
${cluster_options:-}
NodeName=n[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=16 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
${cluster_partitions:-}
END
}

# What MPI needs where several nodes are one machine: no shared memory, whose names would
# collide, and waiting ranks that give way.
cluster_environment() {
  export SLURM_CONF=$cluster/slurm.conf
  export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo
  export PMIX_MCA_gds=hash OMPI_MCA_mpi_yield_when_idle=1
  # docs/decisions/slurm-fences.md
  export SLURM_PMIX_FENCE=tree
  export OMPI_MCA_pmix_base_async_modex=1 OMPI_MCA_pmix_base_collect_data=0
  export OMP_NUM_THREADS=1 OMP_PROC_BIND=false OPENBLAS_NUM_THREADS=1
}

start_slurmd() {
  slurmd -D -N "$1" >"$cluster/slurmd-$1.out" 2>&1 &
  slurmd_pid[$1]=$!
}

nodes_idle() { [ "$(sinfo -h -N -o '%N %T' 2>/dev/null | sort -u | grep -c ' idle$')" = "$1" ]; }

cluster_start() {
  cluster=$1
  local nodes=${2:-4} tool port node
  [ "$(id -u)" = 0 ] || cluster_skip "a private Slurm needs root"
  for tool in munged mungekey slurmctld slurmd srun sbatch; do
    command -v $tool >/dev/null || cluster_skip "$tool is not installed (Debian: slurm-wlm)"
  done
  mkdir -p "$cluster/state"
  chmod 755 "$cluster"
  for node in $(seq "$nodes"); do mkdir -p "$cluster/tmp-n$node" "$cluster/spool-n$node"; done
  port=$(free_ports $((nodes + 1)))
  write_slurm_conf "$nodes" "$port"
  cluster_environment
  mungekey --create --keyfile="$cluster/munge.key"
  munged --force -F --key-file="$cluster/munge.key" --socket="$cluster/munge.socket" \
    --pid-file="$cluster/munged.pid" --log-file="$cluster/munged.log" \
    --seed-file="$cluster/munged.seed" >"$cluster/munged.out" 2>&1 &
  munged_pid=$!
  for _ in $(seq 50); do [ -S "$cluster/munge.socket" ] && break; sleep 0.1; done
  slurmctld -D -i >"$cluster/slurmctld.out" 2>&1 &
  slurmctld_pid=$!
  for node in $(seq "$nodes"); do start_slurmd "n$node"; done
  for _ in $(seq 150); do
    if nodes_idle "$nodes"; then
      srun --mpi=list 2>&1 | grep -q pmix && return
      cluster_stop
      cluster_skip "this Slurm has no PMIx"
    fi
    sleep 0.1
  done
  tail -n 5 "$cluster"/*.log "$cluster"/*.out
  cluster_stop
  cluster_skip "this machine does not let Slurm start"
}

cluster_stop() {
  local daemons=("${slurmd_pid[@]}" ${slurmctld_pid:-} ${munged_pid:-})
  [ ${#daemons[@]} -gt 0 ] || return
  scancel --user=root >/dev/null 2>&1
  sleep 1
  kill "${daemons[@]}" 2>/dev/null
  for _ in $(seq 50); do  # a slurmd may wait for a controller that is gone
    kill -0 "${daemons[@]}" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "${daemons[@]}" 2>/dev/null
  wait "${daemons[@]}" 2>/dev/null
  # What a daemon that was killed by a test has left behind still runs, and listens on ports.
  local left
  for left in $(pgrep -x 'slurmstepd|trireme|program'); do
    if grep -qsF "SLURM_CONF=$cluster/" "/proc/$left/environ"; then kill -9 "$left"; fi
  done
}
