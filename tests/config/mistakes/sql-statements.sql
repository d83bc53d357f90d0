-- Each statement has a mistake or two: one does not hide another.
CREATE TABLE logs (host STRING, bytes BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'logs.jsonl', 'format' = 'json');
CREATE TABLE totals (host STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'totals', 'format' = 'json');
CREATE TABLE names (host STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'names', 'format' = 'json');
CREATE TABLE others (host STRING) WITH ('connector' = 'filesystem', 'pth' = 'others', 'format' = 'json');
CREATE VIEW unread AS SELECT hst FROM logs;
INSERT INTO totals SELECT host, count(*) FROM logs GROUP BY host;
INSERT INTO names SELECT UPPR(host), byts FROM logs;
INSERT INTO others SELECT LOWR(host) FROM logs WHERE byte > 1;
INSERT INTO others SELECT host FROM logs WHERE bytes > 'a' + ;
INSERT INTO names SELECT host FROM logs;
