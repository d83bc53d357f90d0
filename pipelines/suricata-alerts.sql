-- Suricata's alerts by address, in SQL: who set off which signatures in ten minutes. For whoever watches an IDS.
SET 'pipeline.name' = 'suricata-alerts';
SET 'description' = 'Count the alerts of Suricata by address and window of time, with their signatures.';

CREATE TABLE eve (
  event_type STRING,
  src_ip STRING,
  alert ROW<signature STRING, severity INT>,
  `timestamp` TIMESTAMP(3),
  WATERMARK FOR `timestamp` AS `timestamp` - INTERVAL '10' SECOND
) WITH ('type' = 'file', 'path' = '${EVE_LOG:-/var/log/suricata/eve.json}', 'format' = 'json');

CREATE TABLE alerts (
  window_start TIMESTAMP(3),
  src_ip STRING,
  alerts BIGINT,
  worst INT,
  signatures STRING
) WITH ('type' = 'file', 'path' = '${OUT:-suricata-alerts.jsonl}');

INSERT INTO alerts
SELECT window_start, src_ip, count(*), min(alert.severity), LISTAGG(DISTINCT alert.signature, ' | ')
FROM TABLE(TUMBLE(TABLE eve, DESCRIPTOR(`timestamp`), INTERVAL '10' MINUTE))
WHERE event_type = 'alert'
GROUP BY window_start, window_end, src_ip;
