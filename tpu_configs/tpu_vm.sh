#!/usr/bin/env bash
# Creates a Cloud TPU VM or pod slice, trains on it, and deletes it.
set -euo pipefail

usage() {
  cat <<'END'
usage: tpu_configs/tpu_vm.sh COMMAND --name NAME --zone ZONE [OPTIONS] [-- ARGUMENTS]

commands, in the order of their use:
  create   create a TPU VM, or a pod slice of several hosts (--type v3-32)
  setup    copy the last commit of this checkout to every host, and install it there
  train    start `python -m zoo.train ARGUMENTS`; the run goes on when this connection ends, and
           from its last checkpoint when the same command is given again
  logs     follow what the run prints; Ctrl-C ends only the following
  fetch    copy runs/ of the first host to this machine, if --output_dir is not in a bucket
  delete   delete the TPU VM or slice with everything on it

options:
  --name NAME        name of the TPU VM or slice
  --zone ZONE        where it is, such as europe-west4-a
  --project PROJECT  default: gcloud's own
  --type TYPE        accelerator type, such as v3-8, v3-32 or v5litepod-8 (default: v3-8)
  --backend BACKEND  tensorflow or jax, for the same configurations (default: tensorflow)
  --version VERSION  runtime version; `gcloud compute tpus versions list --zone ZONE` has all
                     (default: Google's for the type and backend)
  --spot             create: cheaper, but may be taken away at any time, disks too; then delete,
                     create, setup and the same train go on if --output_dir is in a bucket
  --dry-run          print the commands, run none

Give the same --name, --zone, --type and --backend to every command. Example:

  vm="--name trainer --zone europe-west4-a --type v3-32"
  tpu_configs/tpu_vm.sh create $vm
  tpu_configs/tpu_vm.sh setup $vm
  tpu_configs/tpu_vm.sh train $vm -- --config tpu_configs/lambda_resnet50_i160_350ep.yaml \
    --data.dir gs://BUCKET/tensorflow_datasets --output_dir gs://BUCKET/runs/lambda_resnet50
  tpu_configs/tpu_vm.sh logs $vm
  tpu_configs/tpu_vm.sh delete $vm
END
}

fail() {
  echo "error: $1 (--help shows the usage)" >&2
  exit 2
}

quoted() { # the words as a shell reads them
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

run() {
  if [[ $dry_run == yes ]]; then
    quoted "$@"
    echo
  else
    "$@"
  fi
}

on_hosts() { # WORKER COMMAND: WORKER is the number of a host, or all
  run gcloud compute tpus tpu-vm ssh "$name" "${location[@]}" --worker="$1" --command="$2"
}

create() {
  local -a options=(--accelerator-type="$type" --version="$version")
  [[ $spot == no ]] || options+=(--spot)
  run gcloud compute tpus tpu-vm create "$name" "${location[@]}" "${options[@]}"
}

setup() {
  local steps="set -e
mkdir -p lambda_keras
tar -xzf lambda_keras.tar.gz -C lambda_keras
cd lambda_keras
python3 -m pip install --quiet --user uv
PATH=\$HOME/.local/bin:\$PATH
uv venv --quiet --clear --python 3.11 # as hosts have an older one
uv pip install --quiet --requirement requirements/$backend.lock"
  if [[ $backend == jax ]]; then
    steps+="
uv pip install --quiet 'jax[tpu]' # the libtpu that fits the jax just installed"
  else
    steps+="
uv pip uninstall --quiet tensorflow # the next takes its place
uv pip install --quiet tensorflow-tpu==2.20.0 libtpu==0.0.14 # newer ones crash"
  fi
  run git archive --output=lambda_keras.tar.gz HEAD
  run gcloud compute tpus tpu-vm scp lambda_keras.tar.gz "$name:" "${location[@]}" --worker=all
  on_hosts all "$steps
uv pip install --quiet --no-deps --editable ."
  run rm lambda_keras.tar.gz
}

train() {
  [[ $# -gt 0 ]] || fail "train: expected the arguments of zoo.train after --"
  local worker=all environment
  local -a arguments=("$@")
  if [[ $backend == jax ]]; then
    environment="KERAS_BACKEND=jax"
    if [[ $hosts == several ]]; then
      [[ " $* " =~ " --output_dir"[\ =]"gs://" ]] ||
        fail "train: several hosts need --output_dir gs://BUCKET/FOLDER, which they share"
      arguments+=(--strategy multi_worker)
    fi
  elif [[ $hosts == several ]]; then
    # The first host drives the TPUs of all, whose own servers have loaded the library.
    worker=0
    environment="TPU_NAME=$name TPU_LOAD_LIBRARY=0"
  else
    environment="TPU_NAME=local"
    [[ $api == se ]] || environment+=" NEXT_PLUGGABLE_DEVICE_USE_C_API=true \
TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so"
  fi
  on_hosts "$worker" "cd lambda_keras && $environment nohup .venv/bin/python -m zoo.train \
$(quoted "${arguments[@]}") >> train.log 2>&1 < /dev/null &"
}

logs() {
  on_hosts 0 "tail -n 100 -F lambda_keras/train.log"
}

fetch() {
  run gcloud compute tpus tpu-vm scp --recurse "$name:lambda_keras/runs" . "${location[@]}" \
    --worker=0
}

delete() {
  run gcloud compute tpus tpu-vm delete "$name" "${location[@]}" # asks before it does
}

command="" name="" zone="" project="" type=v3-8 backend=tensorflow version="" spot=no dry_run=no
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage; exit ;;
    --spot) spot=yes ;;
    --dry-run) dry_run=yes ;;
    --) shift; break ;;
    --name | --zone | --project | --type | --backend | --version)
      [[ $# -gt 1 && -n $2 && $2 != --* ]] || fail "$1: expected a value"
      printf -v "${1#--}" %s "$2"
      shift ;;
    create | setup | train | logs | fetch | delete)
      [[ -z $command ]] || fail "expected one command. Received: $command and $1"
      command=$1 ;;
    *) fail "expected a command or an option. Received: $1" ;;
  esac
  shift
done
[[ -n $command ]] || fail "expected a command: create, setup, train, logs, fetch or delete"
[[ -n $name ]] || fail "--name: expected the name of the TPU VM"
[[ -n $zone ]] || fail "--zone: expected a zone, such as europe-west4-a"
[[ $backend == tensorflow || $backend == jax ]] ||
  fail "--backend: expected tensorflow or jax. Received: $backend"
[[ $type =~ ^v[0-9a-z]+-[0-9]+$ ]] ||
  fail "--type: expected an accelerator type, such as v3-8. Received: $type"
[[ $command == train || $# -eq 0 ]] || fail "$command: expected no arguments. Received: $*"
[[ $dry_run == yes ]] || command -v gcloud > /dev/null ||
  fail "gcloud is not installed: https://cloud.google.com/sdk/docs/install"

location=(--zone="$zone")
[[ -z $project ]] || location+=(--project="$project")
hosts=one # with up to eight cores, or chips from v5 on
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
