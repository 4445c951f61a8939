"""Kafka protocol replay by Airflow: copy this file into the DAGs folder.

Where things are comes from the environment of the scheduler: KAFKA_REPLAY_HOME (the clone),
KAFKA_REPLAY_WAREHOUSE and KAFKA_REPLAY_RECORDING. A task that is tried again does only what is
missing; exit status 3 (done, but a critical check fell short) fails it.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # before Airflow 3
    from airflow.operators.bash import BashOperator

HOME = os.environ.get("KAFKA_REPLAY_HOME", "/opt/kafka-protocol-replay")
WAREHOUSE = os.environ.get("KAFKA_REPLAY_WAREHOUSE", "/data/warehouse")
RECORDING = os.environ.get("KAFKA_REPLAY_RECORDING", "/data/recordings/prod")
DEFAULTS = {"retries": 2, "retry_delay": timedelta(minutes=5)}


def job(task_id: str, command: str) -> BashOperator:
    """A task that runs a job in the clone."""
    return BashOperator(
        task_id=task_id,
        bash_command=f".venv/bin/python -m {command}",
        cwd=HOME,
    )


with DAG(
    dag_id="kafka_protocol_replay_hourly",
    schedule="7 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # a run takes all that is new: missed ones need not be made up for
    max_active_runs=1,
    default_args=DEFAULTS,
):
    job("run", f"jobs.run {RECORDING} --warehouse {WAREHOUSE} --growing")

with DAG(
    dag_id="kafka_protocol_replay_nightly",
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULTS,
):
    check = job("check", f"jobs.check {RECORDING} --warehouse {WAREHOUSE}")
    maintain = job("maintain", f"jobs.maintain --warehouse {WAREHOUSE} --keep-days 90")
    check >> maintain
