import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.Plugin;

/** One node with the plugins of its class path, and perhaps the one that -Dsluice.plugin names: java -cp 'lib/*:classes' OpenSearchNode HOME PORT [setting=value …] */
public class OpenSearchNode extends Node {
    OpenSearchNode(Environment environment) {
        super(environment, plugins(), true);
    }

    private static List<Class<? extends Plugin>> plugins() {
        List<Class<? extends Plugin>> found = new ArrayList<>(List.of(
            org.opensearch.transport.Netty4Plugin.class,
            org.opensearch.index.reindex.ReindexPlugin.class,
            org.opensearch.analysis.common.CommonAnalysisPlugin.class,
            org.opensearch.ingest.common.IngestCommonPlugin.class,
            org.opensearch.painless.PainlessPlugin.class,
            org.opensearch.index.mapper.MapperExtrasPlugin.class));
        String more = System.getProperty("sluice.plugin");
        try {
            if (more != null) found.add(Class.forName(more).asSubclass(Plugin.class));
        } catch (ClassNotFoundException error) { throw new IllegalStateException(error); }
        return found;
    }

    public static void main(String[] words) throws Exception {
        Path config = Files.createDirectories(SearchNode.home(words).resolve("config"));
        Settings.Builder settings = Settings.builder();
        SearchNode.settings(words).forEach((name, value) -> settings.put(name, value));
        Environment environment = InternalSettingsPreparer.prepareEnvironment(settings.build(), Map.of(), config, () -> "node");
        Node node = new OpenSearchNode(environment);
        SearchNode.run(node, node::start);
    }
}
