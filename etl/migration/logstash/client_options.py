"""What inputs and outputs of Logstash need to connect → options of sources and sinks, and options that both leave out."""

from __future__ import annotations

import re
from typing import Any

from etl.migration.given_options import GivenOptions, kafka_security
from etl.migration.ingest.processor import as_list
from etl.migration.logstash.references import environment

Options = dict[str, Any]

_JAAS = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


def kafka_client(given: GivenOptions) -> Options:
    """What the source and the sink ``kafka`` need to connect."""
    servers = str(given.get("bootstrap_servers", "localhost:9092")).split(",")
    login = dict(_JAAS.findall(str(given.get("sasl_jaas_config", ""))))
    protocol, mechanism = str(given.get("security_protocol", "PLAINTEXT")), str(given.get("sasl_mechanism", "PLAIN"))
    made: Options = {"servers": [environment(one.strip()) for one in servers]}
    if protocol.upper().startswith("SASL") and not login:
        given.leave("sasl_mechanism", f"{mechanism} without a user and a password; other ways to log in are `properties`")
        protocol = protocol.upper().removeprefix("SASL_")
    user, password = (str(environment(login.get(name, ""))) for name in ("username", "password"))
    made |= kafka_security(protocol, mechanism, user, password)
    if "tls" in made:
        made["tls"] = client_tls(given)
        if given.get("ssl_endpoint_identification_algorithm") == "":
            made["tls"]["verify"] = "authority"
    return made


def client_tls(given: GivenOptions) -> Options:
    """The members of the option ``tls`` of a sink or source that connects."""
    names = {"cacert": "authority", "ssl_truststore_location": "authority", "ssl_certificate": "certificate", "ssl_key": "key"}
    made: Options = given.texts(names)
    authorities = [str(one) for one in as_list(given.get("ssl_certificate_authorities") or [])]
    made |= {"authority": authorities[0]} if authorities else {}
    if made.get("authority", "").lower().endswith((".jks", ".p12", ".pfx", ".keystore", ".truststore")):
        del made["authority"]
        given.leave("ssl_truststore_location", "authorities are a PEM file: `keytool -exportcert -rfc` writes one")
    if given.is_off("ssl_certificate_verification") or given.get("ssl_verification_mode") == "none":
        made["verify"] = "none"
    elif given.get("ssl_verification_mode") == "certificate":
        made["verify"] = "authority"
    return {name: environment(value) for name, value in made.items()}


def elasticsearch_client(given: GivenOptions) -> Options:
    """What the source and the sink ``elasticsearch`` need to connect."""
    if given.get("cloud_id"):
        given.leave("cloud_id", "the addresses of the deployment are `urls`")
    urls = _urls(given)
    login = {name: environment(str(given[name])) for name in ("user", "password", "api_key") if given.get(name)}
    tls = client_tls(given)
    return {"urls": urls, **login, **({"tls": tls} if tls and any(url.startswith("https") for url in urls) else {})}


def _urls(given: GivenOptions) -> list[str]:
    hosts = [str(environment(one)) for one in as_list(given.get("hosts") or ["localhost:9200"])]
    scheme = "https" if given.is_on("ssl") or given.is_on("ssl_enabled") else "http"
    urls = [one if "://" in one else f"{scheme}://{one}" for one in hosts]
    return [one if one.count(":") > 1 or "$" in one else f"{one}:9200" for one in urls]


WITHOUT_EFFECT = re.compile(
    r"""
    temporary_directory | use_aws_bundled_ca | restore | upload_workers_count | upload_queue_size | upload_multipart_threshold |
    validate_credentials_on_root_bucket | retry_count | retry_delay | additional_settings |
    id | enable_metric | workers | codec | type | tags | add_field | threads | client_id | client_rack | pool_max |
    pool_max_per_route | timeout | sincedb_path | sincedb_write_interval | sincedb_clean_after | stat_interval |
    discover_interval | close_older | max_open_files | file_chunk_size | file_chunk_count | file_sort_by |
    file_sort_direction | ecs_compatibility | consumer_threads | fetch_max_bytes | fetch_max_wait_ms | fetch_min_bytes |
    max_partition_fetch_bytes | max_poll_interval_ms | max_poll_records | session_timeout_ms | heartbeat_interval_ms |
    request_timeout_ms | poll_timeout_ms | connections_max_idle_ms | enable_auto_commit | auto_commit_interval_ms |
    receive_buffer_bytes | send_buffer_bytes | metadata_max_age_ms | client_dns_lookup | reconnect_backoff_ms |
    retry_backoff_ms | check_crcs | partition_assignment_strategy | group_instance_id | auto_create_topics | acks |
    batch_size | linger_ms | retries | buffer_memory | max_request_size | metadata_fetch_timeout_ms | partitioner |
    key_serializer | value_serializer | key_deserializer_class | value_deserializer_class | security_protocol |
    manage_template | template_overwrite | template_api |
    retry_initial_interval | retry_max_interval | resurrect_delay | sniffing | sniffing_delay |
    sniffing_path | healthcheck_path | validate_after_inactivity | document_type | retry_on_conflict |
    data_stream_auto_routing | data_stream_sync_fields | flush_interval | create_if_deleted | stale_cleanup_interval |
    dir_mode | file_mode | filename_failure | write_behavior | automatic_retries | retry_failed | retry_non_idempotent |
    connect_timeout | socket_timeout | request_timeout | keepalive | cookies | follow_redirects | queue_size |
    response_headers | client_inactivity_timeout | executor_threads | tcp_keep_alive | dns_reverse_lookup_enabled |
    buffer_size | max_pending_requests | max_content_length | tls_min_version | tls_max_version |
    ssl_supported_protocols | ssl_cipher_suites | cipher_suites
    """,
    re.VERBOSE,
)
"""Options that tune Logstash itself and are left out without a note: Sluice manages offsets, connections and memory itself."""
