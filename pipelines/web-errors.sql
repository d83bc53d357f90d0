-- Errors of a web server, in SQL: the pages with most answers of 5xx in each minute. For whoever is on call.
-- Steps are called as table functions: `weblog` reads the lines. `etl convert web-errors.sql` prints the same pipeline in YAML.
SET 'pipeline.name' = 'web-errors';
SET 'description' = 'List the pages of a web server with most errors in each minute.';

CREATE TABLE access WITH ('type' = 'file', 'path' = '${ACCESS_LOG:-/var/log/nginx/access.log}');
CREATE TABLE pages WITH ('type' = 'file', 'path' = '${OUT:-web-errors.jsonl}');

CREATE VIEW requests AS
SELECT `timestamp`, http.response.status_code AS status, url.original AS page
FROM TABLE(weblog(TABLE access, formats => '[combined, common, vhost_combined]'));

CREATE VIEW errors AS
SELECT window_start, window_end, page, count(*) AS errors
FROM TABLE(TUMBLE(TABLE requests, DESCRIPTOR(`timestamp`), INTERVAL '1' MINUTE))
WHERE status >= 500
GROUP BY window_start, window_end, page;

INSERT INTO pages
SELECT window_start, page, errors, place
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY errors DESC) AS place FROM errors
)
WHERE place <= 3;
