CREATE TABLE logs (host STRING, bytes BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'logs.jsonl', 'format' = 'json');
CREATE TABLE totals (host STRING, n BIGINT, u STRING) WITH ('connector' = 'filesystem', 'path' = 'totals', 'format' = 'json');
INSERT INTO totals SELECT host, sum(size_of_answer), UPPR(host) FROM logs WHERE byts > 1 GROUP BY host;
SELECT b.host, b.bytes, count(*) FROM logs AS c GROUP BY b.host, b.bytes;
SELECT FRST(bytes) FROM logs GROUP BY host;
SELECT first_one, second_one, nofun(host) FROM logs WHERE UPPR(host) = 'A';
