#!/usr/bin/env bash
# Creates Cloud TPU VMs or pod slices, trains on them, and deletes them.
set -euo pipefail

usage() {
  cat <<'END'
usage: tpu_configs/tpu_vm.sh COMMAND --name NAME --zone ZONE [OPTIONS] [-- ARGUMENTS]

commands:
  run      all of it: create, setup and train; when the TPU VM is preempted, again on a new one,
           until the run is finished; then delete. Needs --output_dir gs://BUCKET/FOLDER. The same
           command goes on after it was interrupted

its steps, in the order of their use:
  create   create a TPU VM, or a pod slice of several hosts (--type v3-32)
  status   show the state of the TPU VM, and whether a run is active there
  setup    copy the last commit of this checkout to every host, and install it there
  train    start `python -m zoo.train ARGUMENTS`, unless a run is active; the run continues when
           this connection ends, and the same command resumes it from its last checkpoint
  logs     follow the output of the run; Ctrl-C does not end the run
  stop     save a checkpoint and end the run
  fetch    copy runs/ of the first host to this machine, if --output_dir is not in a bucket
  delete   delete the TPU VM or slice with everything on it

options:
  --name NAME        name of the TPU VM or slice
  --zone ZONE        its zone, such as europe-west4-a
  --project PROJECT  default: gcloud's own
  --type TYPE        accelerator type, such as v3-8, v3-32 or v5litepod-8 (default: v3-8)
  --backend BACKEND  tensorflow or jax, for the same configurations (default: tensorflow)
  --version VERSION  runtime version; `gcloud compute tpus versions list --zone ZONE` lists all
                     (default: Google's for the type and backend)
  --spot             create: cheaper, but may be preempted at any time, with its disks
  --queued           create: queue a request until a TPU is available (status shows the request);
                     pass it to delete, too
  --pause SECONDS    run: time between two attempts (default: 60)
  --attempts NUMBER  run: attempts without a start of the training after which it gives up
                     (default: 1000)
  --dry-run          print the commands without running them

Pass the same --name, --zone, --type and --backend to every command. Example:

  vm="--name trainer --zone europe-west4-a --type v3-32"
  tpu_configs/tpu_vm.sh run $vm --spot -- --config lambda_resnet50_i160_350ep \
    --data.dir gs://BUCKET/tensorflow_datasets --output_dir gs://BUCKET/runs/lambda_resnet50
  tpu_configs/tpu_vm.sh logs $vm
END
}

fail() {
  echo "error: ${1//[[:cntrl:]]/?} (--help shows the usage)" >&2
  exit 2
}

writes_to_bucket() { # whether ARGUMENTS of zoo.train have a folder in a bucket
  [[ " $* " =~ " --output_dir"[\ =]"gs://"[a-z0-9][-_.a-z0-9]*/[^/\ ] ]]
}

quoted() { # quotes words for a shell
  local word line=""
  for word in "$@"; do
    case $word in
      '' | *[!A-Za-z0-9_./:=,@%+-]*)
        word="'$(printf %s "$word" | sed "s/'/'\\\\''/g")'" ;;
    esac
    line+=" $word"
  done
  printf %s "${line# }"
}

call() {
  if [[ $dry_run == yes ]]; then
    quoted "$@"
    echo
  else
    "$@"
  fi
}

on_hosts() { # WORKER COMMAND: WORKER is the number of a host, or all
  call gcloud compute tpus tpu-vm ssh "$name" "${location[@]}" --worker="$1" --command="$2"
}

create() {
  local -a options=(--accelerator-type="$type")
  [[ $spot == no ]] || options+=(--spot)
  if [[ $queued == yes ]]; then
    call gcloud compute tpus queued-resources create "$name" "${location[@]}" \
      --node-id="$name" --runtime-version="$version" "${options[@]}"
  else
    call gcloud compute tpus tpu-vm create "$name" "${location[@]}" \
      --version="$version" "${options[@]}"
  fi
}

status() {
  if [[ $queued == yes ]]; then
    call gcloud compute tpus queued-resources describe "$name" "${location[@]}" \
      --format="value(state.state)"
  fi
  call gcloud compute tpus tpu-vm describe "$name" "${location[@]}" --format="value(state)"
  on_hosts 0 "cd lambda_keras || exit
flock -n train.pid true && echo 'no run is active' || echo 'a run is active'
tail -n 1 train.log"
}

state() { # of the TPU VM, or of its request if there is none; empty if there is neither
  local of=(gcloud compute tpus)
  "${of[@]}" tpu-vm describe "$name" "${location[@]}" --format="value(state)" 2> /dev/null ||
    [[ $queued == no ]] ||
    "${of[@]}" queued-resources describe "$name" "${location[@]}" --format="value(state.state)" \
      2> /dev/null || true
}

setup() {
  local steps="set -e
mkdir -p lambda_keras
tar -xzf lambda_keras.tar.gz -C lambda_keras
cd lambda_keras
python3 -m pip install --quiet --user uv
PATH=\$HOME/.local/bin:\$PATH
uv venv --quiet --clear --python 3.11 # hosts have an older one
uv pip install --quiet --requirement requirements/$backend.lock"
  if [[ $backend == jax ]]; then
    steps+="
uv pip install --quiet --editable '.[jax-tpu]'"
  else
    steps+="
uv pip uninstall --quiet tensorflow # the next line replaces it
uv pip install --quiet --editable '.[tpu]'"
  fi
  steps+="
touch .venv/complete"
  local root changes folder=/tmp
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  changes=$(git -C "$root" status --porcelain | wc -l)
  [[ $changes -eq 0 ]] ||
    echo "files with changes that are in no commit, and are not copied: $((changes))" >&2
  if [[ $dry_run == no ]]; then
    folder=$(mktemp -d)
    trap "rm -rf '$folder'" EXIT
  fi
  # `set -e` does not hold where run calls this.
  call git -C "$root" archive --output="$folder/lambda_keras.tar.gz" HEAD || return
  call gcloud compute tpus tpu-vm scp "$folder/lambda_keras.tar.gz" "$name:" "${location[@]}" \
    --worker=all || return
  [[ $dry_run == yes ]] || rm -r "$folder"
  on_hosts all "$steps"
}

train() {
  [[ $# -gt 0 ]] || fail "train: expected the arguments of zoo.train after --"
  local worker=all environment
  local -a arguments=("$@")
  if [[ $backend == jax ]]; then
    environment="KERAS_BACKEND=jax"
    if [[ $hosts == several ]]; then
      writes_to_bucket "$@" ||
        fail "train: several hosts need --output_dir gs://BUCKET/FOLDER, which they share"
      arguments+=(--strategy multi_worker)
    fi
  elif [[ $hosts == several ]]; then
    # The first host drives the TPUs of all hosts; their own servers have loaded the library.
    worker=0
    environment="TPU_NAME=$name TPU_LOAD_LIBRARY=0"
  else
    environment="TPU_NAME=local"
    [[ $api == se ]] || environment+=" NEXT_PLUGGABLE_DEVICE_USE_C_API=true \
TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so"
  fi
  # The run inherits file descriptor 9, so it holds the lock until it ends.
  local program="$environment .venv/bin/python -m zoo.train $(quoted "${arguments[@]}") &
echo \$! > train.pid
wait \$!
echo \$? > train.code"
  on_hosts "$worker" "cd lambda_keras || exit
exec 9>> train.pid
flock -n 9 || { echo 'error: a run is active here already; stop ends it' >&2; exit 2; }
rm -f train.code
nohup bash -c $(quoted "$program") >> train.log 2>&1 < /dev/null &"
}

run() {
  writes_to_bucket "$@" ||
    fail "run: expected --output_dir gs://BUCKET/FOLDER, which outlives a TPU VM"
  if [[ $dry_run == yes ]]; then
    create
    setup
    train "$@"
    follow
    delete
    return
  fi
  local attempt code now="" created=0
  quiet=--quiet
  for ((attempt = 0; attempt < attempts; attempt++)); do
    now=$(state)
    [[ -z $now ]] || created=0
    case $now in
      READY)
        on_hosts all "test -e lambda_keras/.venv/complete" 2> /dev/null || setup ||
          { pause; continue; }
        train "$@" || true # a run is active already, or follow says so
        code=$(follow | tee /dev/stderr | sed -n 's/^the run ended with code //p' | tail -n 1)
        case $code in
          0) delete && return ;;
          2) fail "run: zoo.train refused its settings, see above; the TPU VM was not deleted" ;;
          '') pause ;; # no connection
          *)
            pause # the state of a TPU VM that is preempted follows the end of the run
            [[ $(state) != READY ]] ||
              fail "run: ended with code $code, see above; the TPU VM was not deleted"
            attempt=0 ;;
        esac ;;
      '')
        if ! create; then
          pause
        elif ((++created == 3)); then
          fail "run: gcloud created $name $created times, but describes none: see --name, --zone, --project"
        fi ;;
      CREATING | STARTING | ACCEPTED | PROVISIONING | WAITING_FOR_RESOURCES | ACTIVE) pause ;;
      *)
        echo "the TPU VM is $now; a new one takes its place" >&2
        delete || pause ;;
    esac
  done
  fail "run: gave up after $attempts attempts, the last one with state ${now:-none}"
}

pause() {
  sleep "$pause"
}

follow() { # shows the output of the run until it ends, then its exit code
  on_hosts 0 "cd lambda_keras || exit
tail -n 5 -F --pid=\$(cat train.pid) train.log
flock train.pid true
echo \"the run ended with code \$(cat train.code)\"" || true
}

logs() {
  on_hosts 0 "tail -n 100 -F lambda_keras/train.log"
}

stop() { # a signal on one host ends the run on all
  on_hosts 0 "cd lambda_keras || exit
flock -n train.pid echo 'no run is active' || kill \$(cat train.pid)
flock train.pid true # waits until the run has ended"
}

fetch() {
  call gcloud compute tpus tpu-vm scp --recurse "$name:lambda_keras/runs" . "${location[@]}" \
    --worker=0
}

delete() {
  # Both commands ask for confirmation, but in a run.
  if [[ $queued == yes ]]; then
    call gcloud compute tpus queued-resources delete "$name" "${location[@]}" --force ${quiet:+"$quiet"}
  else
    call gcloud compute tpus tpu-vm delete "$name" "${location[@]}" ${quiet:+"$quiet"}
  fi
}

command="" name="" zone="" project="" type=v3-8 backend=tensorflow version="" spot=no queued=no
dry_run=no pause=60 attempts=1000
quiet=""
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit ;;
    --spot) spot=yes ;;
    --queued) queued=yes ;;
    --dry-run) dry_run=yes ;;
    --) shift; break ;;
    --name | --zone | --project | --type | --backend | --version | --pause | --attempts)
      [[ $# -gt 1 && -n $2 && $2 != --* ]] || fail "$1: expected a value"
      printf -v "${1#--}" %s "$2"
      shift ;;
    run | create | status | setup | train | logs | stop | fetch | delete)
      [[ -z $command ]] || fail "expected one command. Received: $command and $1"
      command=$1 ;;
    *) fail "expected a command or an option. Received: $1" ;;
  esac
  shift
done
[[ -n $command ]] || fail "expected a command: run, create, status, setup, train, logs, stop, fetch or delete"
# The name is part of commands of the remote shell.
[[ $name =~ ^[a-z]([-a-z0-9]*[a-z0-9])?$ ]] ||
  fail "--name: expected the name of the TPU VM: a-z, 0-9 and -. Received: $name"
[[ $zone =~ ^[a-z]([-a-z0-9]*[a-z0-9])?$ ]] ||
  fail "--zone: expected a zone, such as europe-west4-a. Received: $zone"
[[ $backend == tensorflow || $backend == jax ]] ||
  fail "--backend: expected tensorflow or jax. Received: $backend"
# Up to v3 there are few sizes; v4 and v5p count cores, in cubes of chips; the others count chips.
[[ $type =~ ^v[23]-(8|32|64|128|256|512|1024|2048)$ || $type =~ ^v(5litepod|6e)-(1|4|8|16|32|64|128|256)$ ||
  ($type =~ ^v(4|5p)-[1-9][0-9]{0,4}$ && $((${type##*-} % 8)) -eq 0) ]] ||
  fail "--type: expected an accelerator type, such as v3-8. Received: $type"
for number in "$pause" "$attempts"; do
  [[ $number =~ ^[0-9]{1,6}$ ]] || fail "--pause, --attempts: expected a number. Received: $number"
done
[[ $command == train || $command == run || $# -eq 0 ]] || fail "$command: expected no arguments. Received: $*"
[[ $dry_run == yes ]] || command -v gcloud > /dev/null ||
  fail "gcloud is not installed: https://cloud.google.com/sdk/docs/install"

location=(--zone="$zone")
[[ -z $project ]] || location+=(--project="$project")
hosts=one # up to eight cores, or chips from v5 on
[[ ${type##*-} -le 8 ]] || hosts=several
api=pjrt # how TensorFlow reaches the TPU
[[ ! $type =~ ^v[234]- ]] || api=se
if [[ -z $version ]]; then
  case $backend-$type in
    tensorflow-*)
      version=tpu-vm-tf-2.20.0
      [[ $hosts == one ]] || version+=-pod
      version+=-$api ;;
    jax-v5lite*) version=v2-alpha-tpuv5-lite ;;
    jax-v5p-*) version=v2-alpha-tpuv5 ;;
    jax-v6e-*) version=v2-alpha-tpuv6e ;;
    *) version=tpu-ubuntu2204-base ;;
  esac
fi
"$command" "$@"
