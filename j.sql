CREATE TABLE l WITH ('type'='file','path'='in.jsonl');
CREATE VIEW l2 AS SELECT * FROM l;
CREATE TABLE t (id STRING, name STRING, score INT) WITH ('type'='file','path'='t.csv','format'='csv');
CREATE TABLE o WITH ('type'='print');
INSERT INTO o SELECT l.*, t.score AS tscore FROM l JOIN t FOR SYSTEM_TIME AS OF PROCTIME() ON l.id = t.id;
