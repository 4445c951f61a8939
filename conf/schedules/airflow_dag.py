"""Kafka protocol replay by Airflow: copy this file into the DAGs folder.

Where things are comes from the environment of the workers: KIP_REPLAY (the command),
KIP_REPLAY_WAREHOUSE and KIP_REPLAY_RECORDINGS. With KIP_REPLAY_SPARK, a connection of Airflow to
Spark, runs are submitted to that cluster, with KIP_REPLAY_HOME as ``kip-replay --home`` prints it.
A month is a recording of its own (a folder prod-YYYY-MM with its recording.json), so that old ones
can be dropped. A task that is tried again does only what is missing; exit status 3 (done, but a
critical check fell short) fails it. The view ``runs`` of the warehouse has what each step wrote.
"""

import os
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # before Airflow 3
    from airflow.operators.bash import BashOperator

KIP_REPLAY = os.environ.get("KIP_REPLAY", "/opt/kip-replay/bin/kip-replay")
HOME = os.environ.get("KIP_REPLAY_HOME", "/opt/kip-replay/lib/python3.11/site-packages/kip_replay")
SPARK = os.environ.get("KIP_REPLAY_SPARK")
WAREHOUSE = os.environ.get("KIP_REPLAY_WAREHOUSE", "/data/warehouse")
RECORDINGS = os.environ.get("KIP_REPLAY_RECORDINGS", "/data/recordings")
# Rendered by Airflow, in the quotes of a shell.
MONTH = (
    RECORDINGS + '/prod-{{ (data_interval_end - macros.timedelta(days=%d)).strftime("%%Y-%%m") }}'
)
THIS_MONTH, LAST_MONTH = MONTH % 0, MONTH % 5
USUAL = {
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "catchup": False,  # a run takes all that is new: missed ones need not be made up for
    "max_active_runs": 1,
    "default_args": {"retries": 2, "retry_delay": timedelta(minutes=5)},
}


def job(name: str, *options: str) -> Any:
    """A task that runs a job."""
    arguments = [name, *options, "--warehouse", WAREHOUSE]
    if SPARK and name == "run":
        from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

        return SparkSubmitOperator(
            task_id=name,
            conn_id=SPARK,
            application=f"{HOME}/jobs/main.py",
            application_args=arguments,
            properties_file=f"{HOME}/conf/cluster/standalone.conf",
            env_vars={"SPARK_CONF_DIR": f"{HOME}/conf"},
        )
    return BashOperator(task_id=name, bash_command=f"{KIP_REPLAY} {shlex.join(arguments)}")


with DAG("kip_replay_hourly", schedule="7 * * * *", **USUAL):
    job("run", THIS_MONTH, "--growing")

with DAG("kip_replay_nightly", schedule="15 2 * * *", **USUAL):
    check = job("check", THIS_MONTH)
    maintain = job("maintain", "--keep-days", "90")
    check >> maintain

# When the last lines of the month before are in.
with DAG("kip_replay_monthly", schedule="30 1 2 * *", **USUAL):
    job("run", LAST_MONTH, "--final")
