-- What is declared with a mistake is no mistake of the queries that use it.
CREATE TABLE logs (host STRING, bytes BIGINT, t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'logs.jsonl', 'format' = 'json');
CREATE TABLE unread (a STRING, b TIEM) WITH ('connector' = 'kafka', 'topic' = 'x');
CREATE TABLE unnamed (a STRING, b INT) WITH ('conector' = 'kafka', 'topc' = 'x');
CREATE TABLE orders (id STRING, amount INT, t TIMESTAMP(3) METADATA FROM 'timestamp', WATERMARK FOR t AS t)
  WITH ('connector' = 'kafka', 'topic' = 'o', 'properties.bootstrap.servers' = 'k:9092', 'scan.startup.mode' = 'earliest', 'format' = 'json');
CREATE FUNCTION f AS 'nowhere:f' LANGUAGE PYTHON;
CREATE FUNCTION g AS 'g' LANGUAGE PYTHON;
CREATE VIEW few AS SELECT f(host) AS h, g(host) AS g, bytes FROM logs WHERE hosst = 'x';
SELECT h, lowr(g) AS l FROM few;
SELECT a, nofunction(a) AS n FROM unread;
SELECT x, count(*), nofunction(x) FROM unknown_table WHERE z > 1 GROUP BY x;
SELECT u.*, o.id FROM unknown_table u JOIN orders o ON u.id = o.id;
SELECT id, sum(amount) FROM orders GROUP BY TUMBLE(t, INTERVAL '1' MINUTE), id;
INSERT INTO nowhere SELECT host, uper(host) FROM logs;
INSERT INTO unnamed SELECT host, sum(bytes) FROM logs GROUP BY host;
INSERT INTO unnamed SELECT id, amont FROM orders WHERE TO_TIMSTAMP(id) > t;
CREATE TABLE many (id BIGINT, v STRING) WITH ('connector' = 'kafka', 'topics' = 'a', 'properties.bootstrap.servers' = 'h:9092',
  'scan.startup.mode' = 'latest', 'format' = 'avro', 'scan.parallelism' = '2');
SELECT idd, lower(v) FROM many;
