"""All steps of the engine, for the catalogue. Whoever needs one imports its module."""

from etl.steps.convert import Convert
from etl.steps.drop import Drop
from etl.steps.filter import Filter
from etl.steps.keep import Keep
from etl.steps.rename import Rename
from etl.steps.set import Set
from etl.steps.sql import Sql
from etl.steps.window import Window

COMPONENTS = (Filter, Set, Keep, Drop, Rename, Convert, Window, Sql)
